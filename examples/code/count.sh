# Counts the words of a file.
tr ' ' '\n' <"$1" | sort | uniq -c
