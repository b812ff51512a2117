"""Pipelines: stages of pretraining, training, evaluation, choice, search, comparison and report in one YAML file.

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

`${STAGE}` is replaced by the result of an earlier stage: a policy for pretrain and train, a run for search and compare
(`${hard}/vpo/s0` is one run of a comparison), a file for evaluate (for `against` and for pick), and for pick a list of
the problems that evaluations found hard, for `problems`. A stage reads only earlier stages, so the stages run in the
order of the file.

Read the modules in this order: `file` reads the file, `checks` finds errors and costs before anything runs; `state`
records the finished stages, `plan` decides the next ones; `stage` makes a stage's command, `runner` runs the commands;
`display` prints.
"""
