#!/bin/bash
# Bare hosts that reach each other by SSH, without Kubernetes or Slurm:
#   EVO_DB=postgresql+psycopg://evo@HOST/evo examples/cluster/hosts.sh up HEAD WORKER WORKER ...
#   evo compare maze:hard --ray HEAD:6379 --name first
#   examples/cluster/hosts.sh down HEAD WORKER WORKER ...
# Every host holds the same checkout in the same place with the same environment ($EVO_HOME, by default ~/evo/.venv).
set -euo pipefail

: "${EVO_DB:?export EVO_DB=postgresql+psycopg://evo@HOST/evo}"
what=${1:?up or down}
head=${2:?a host for the head}
shift 2
home=${EVO_HOME:-'~/evo'}

on() {
    ssh -o BatchMode=yes "$1" "cd $home && . .venv/bin/activate && export EVO_DB='$EVO_DB' && $2"
}

case $what in
    up)
        on "$head" "evo doctor && ray start --head --port=6379"
        for host in "$@"; do on "$host" "evo doctor && ray start --address=$head:6379"; done
        on "$head" "ray status"
        ;;
    down)
        for host in "$@" "$head"; do on "$host" "ray stop"; done
        ;;
    *)
        echo "up or down, not $what" >&2
        exit 2
        ;;
esac
