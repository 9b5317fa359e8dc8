cwlVersion: v1.0
class: Workflow
doc: Counts the words of texts, one task a text, and adds them up.
requirements:
  ScatterFeatureRequirement: {}
inputs:
  texts: "File[]"
outputs:
  counts: {type: "File[]", outputSource: count/counts}
  words: {type: File, outputSource: sum/words}
steps:
  count:
    run: count.cwl
    scatter: text
    in: {text: texts}
    out: [counts]
  sum:
    run: sum.cwl
    in: {counts: count/counts}
    out: [words]
