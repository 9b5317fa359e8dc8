cwlVersion: v1.0
class: CommandLineTool
doc: The counts of all texts together, the most frequent words first.
hints:
  DockerRequirement: {dockerPull: "localhost/tradewind-genomics:1"}
baseCommand:
  - sh
  - -c
  - cat "$0" "$@" | awk '{n[$1] += $2} END {for (w in n) print n[w], w}' | LC_ALL=C sort -k1,1nr -k2
inputs:
  counts: {type: "File[]", inputBinding: {position: 1}}
outputs:
  words: {type: stdout}
stdout: words.txt
