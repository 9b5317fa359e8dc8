// Counts words of several texts: one task for each text, one for the sum. The README has the command.
process count {
    cpus 1
    memory '500 MB'

    input:
    val text

    output:
    path 'counts.tsv'

    script:
    """
    for n in 1 2 3; do echo 'the $text of the sea'; done | tr ' ' '\\n' | sort | uniq -c >counts.tsv
    """
}

process sum {
    input:
    path 'counts*.tsv'

    output:
    stdout

    script:
    """
    awk '{ n[\$2] += \$1 } END { for (w in n) print w, n[w] }' counts*.tsv | sort
    """
}

workflow {
    channel.of('a', 'b', 'c') | count | collect | sum | view
}
