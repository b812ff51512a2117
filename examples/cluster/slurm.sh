#!/bin/bash
# One comparison over the nodes of a Slurm job. Submit with: sbatch examples/cluster/slurm.sh
# PostgreSQL runs elsewhere and every node reaches it. A job that ended early continues if it is submitted again under
# the same EVO_NAME.
#SBATCH --job-name=evo
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=08:00:00
#SBATCH --signal=B:INT@120
set -euo pipefail

: "${EVO_DB:?export EVO_DB=postgresql+psycopg://evo@HOST/evo (the password in PGPASSWORD or ~/.pgpass)}"
name=${EVO_NAME:-slurm}
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((6379 + SLURM_JOB_ID % 1000))

# every node is checked before anything runs
srun --ntasks="$SLURM_JOB_NUM_NODES" evo doctor --db "$EVO_DB"

search=(evo compare maze:hard --arm base=embedded:base --arm vpo=embedded:vpo --iterations 60 --name "$name")
if evo show "$name" --db "$EVO_DB" > /dev/null 2>&1; then
    search=(evo resume "$name")
fi

# starts Ray on all nodes, runs the command on the head alone, and ends Ray with it
srun --ntasks="$SLURM_JOB_NUM_NODES" ray symmetric-run \
    --address "$head:$port" --min-nodes "$SLURM_JOB_NUM_NODES" -- \
    "${search[@]}" --db "$EVO_DB" --ray "$head:$port" --plain
