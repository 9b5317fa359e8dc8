echo "code runs in $(basename "$(readlink "$1")")"
