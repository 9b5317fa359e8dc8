cwlVersion: v1.0
class: CommandLineTool
doc: The words of a text, each with how often it is there. It takes so long that its machine can be preempted meanwhile.
hints:
  DockerRequirement: {dockerPull: "localhost/tradewind-genomics:1"}
baseCommand:
  - sh
  - -c
  - sleep 5; tr -cs A-Za-z '\n' <"$0" | LC_ALL=C sort | uniq -c | awk '{print $2, $1}'
inputs:
  text: {type: File, inputBinding: {position: 1}}
outputs:
  counts: {type: stdout}
stdout: $(inputs.text.nameroot).counts
