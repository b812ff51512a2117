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
            vpo: ${vpo}                       # what the stage `vpo` gives: the policy it trained
      page:
        report:
          run: ${hard}

`${STAGE}` stands for what an earlier stage gives: pretrain and train a policy, search and compare a run (of a
comparison `${hard}/vpo/s0` is one of its runs), evaluate a file for `against` and for pick, which gives a list of the
problems that evaluations found hard, for `problems`. A stage reads earlier ones only, so the
file's order is the order of work.

Read in this order: `file` is what is read, `checks` finds what is wrong before
anything runs, and the costs; `state` is what is finished, `plan` what is next; `stage` makes a stage's command,
`runner` runs one after the other; `display` prints.
"""
