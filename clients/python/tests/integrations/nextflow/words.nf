// Counts words: each text is cut into pieces, the words of each piece are tallied, and the tallies are added up. Files go
// from process to process by the work folder, in each of the ways that there are: by name, by wildcard, as folders, as
// links, and not at all.

params.texts = null
params.out = 'out'

process cut {
    input:
    path text

    output:
    path 'piece-*'

    script:
    """
    split --lines 40 --numeric-suffixes=1 '$text' piece-${text.baseName}-
    """
}

process tally {
    tag "${piece.name}"
    cpus 1
    memory '200 MB'
    disk '1 GB'

    input:
    path piece

    output:
    tuple val("${piece.name.tokenize('-')[1]}"), path("${piece.name}.counts")

    script:
    """
    tr -cs '[:alpha:]' '\\n' < $piece | grep . | LC_ALL=C sort | uniq -c | awk '{ print \$2 "\\t" \$1 }' > counts
    sleep 2 # for as long as it takes that a machine is preempted
    ln -s counts ${piece.name}.counts
    """
}

process together {
    publishDir params.out, mode: 'copy'

    input:
    tuple val(name), path(counts)

    output:
    path "the words of ${name}.tsv", emit: words
    path 'notes-*', emit: notes
    path 'rare.tsv', optional: true, emit: rare

    script:
    """
    total $counts > 'the words of ${name}.tsv'
    mkdir -p notes-$name/deep && wc -l < 'the words of ${name}.tsv' > notes-$name/deep/lines
    """
}

process table {
    publishDir params.out, mode: 'copy'

    input:
    path words
    path notes

    output:
    path 'words.tsv'
    path 'lines.txt'
    stdout emit: said

    script:
    """
    total *.tsv > words.tsv.new && mv words.tsv.new words.tsv
    cat notes-*/deep/lines > lines.txt
    echo "\$(wc -l < words.tsv) words"
    """
}

workflow {
    cut(Channel.fromPath(params.texts))
    tally(cut.out.flatten())
    together(tally.out.groupTuple(sort: { it.name }))
    table(together.out.words.collect(sort: true), together.out.notes.collect(sort: true))
    table.out.said.view()
    together.out.rare.view { "rare: $it" }
}
