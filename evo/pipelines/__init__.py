"""Pipelines: ordered stages of training, evaluation, search, comparison and report in one YAML file.

    stages:
      vpo:                                    # the stage's name
        train:                                # its kind; below it the keys that `evo train --config FILE` takes
          method: vpo
          problems: [maze:train/0-899]
          policy: embedded:base
          steps: 40
      hard:
        compare:
          problems: [maze:hard]
          iterations: 100
          arms:
            base: embedded:base
            vpo: ${vpo}                       # the result of the stage `vpo`: the policy it trained
      page:
        report:
          run: ${hard}

`${STAGE}` is the result of an earlier stage: a policy for train, a run for search and compare (`${hard}/vpo/s0` is one
run of a comparison), a file for evaluate, whose problems `${STAGE}?solve@30=0` filters by a metric.

`file` reads and checks the file, `run` does the stages: one `evo` command each, in a separate process.
"""
