package tes

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// The script's functions, for any /bin/sh. What an executor prints goes to files, as TES tells stdout from stderr; the
// ends of both go to the log behind a line that says how many bytes they have, so nothing printed can pass for a line
// of the script's own.
const prelude = `tes=$PWD/.tes
mkdir -p "$tes" || exit 125
tes_now() { date -u +%Y-%m-%dT%H:%M:%SZ; }
tes_end() {
  tail -c 16384 "$4" >"$tes/o" 2>/dev/null
  tail -c 16384 "$5" >"$tes/e" 2>/dev/null
  printf '\n== tes executor %s %s %s %s %s %s\n' "$1" "$2" "$(tes_now)" "$3" $(wc -c <"$tes/o") $(wc -c <"$tes/e")
  cat "$tes/o" "$tes/e"
}
tes_left() { printf '\n== tes output %s %s %s\n' "$1" $(wc -c <"$2") "$3"; }
`

// script runs the executors in order, and then puts what they left where the agent looks for it.
func (t *Task) script() string {
	var b strings.Builder
	b.WriteString(prelude)
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, v := range t.Volumes {
		line("mkdir -p %s || exit 125", quote(v))
	}
	for _, in := range t.Inputs {
		if in.Content != "" || in.URL == "" {
			line("mkdir -p %s && printf %%s %s >%s || exit 125", quote(path.Dir(in.Path)), quote(in.Content),
				quote(in.Path))
		}
	}
	for _, out := range t.Outputs { // executors may count on the directories
		if !wild(out.Path) {
			line("mkdir -p %s || exit 125", quote(path.Dir(out.Path)))
		}
	}
	for i, e := range t.Executors {
		e.write(line, i)
	}
	for i, out := range t.Outputs {
		out.write(line, i)
	}
	return b.String()
}

func (e *Executor) write(line func(string, ...any), i int) {
	stdin, stdout, stderr := "/dev/null", fmt.Sprintf(`"$tes/out%d"`, i), fmt.Sprintf(`"$tes/err%d"`, i)
	if e.Stdin != "" {
		stdin = quote(e.Stdin)
	}
	if e.Stdout != "" {
		stdout = quote(e.Stdout)
		line("mkdir -p %s", quote(path.Dir(e.Stdout)))
	}
	if e.Stderr != "" {
		stderr = quote(e.Stderr)
		line("mkdir -p %s", quote(path.Dir(e.Stderr)))
	}
	line("tes_start=$(tes_now)")
	line("(")
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		line("export %s=%s", name, quote(e.Env[name]))
	}
	if e.Workdir != "" {
		line("mkdir -p %s; cd %[1]s || exit 126", quote(e.Workdir))
	}
	words := make([]string, len(e.Command))
	for j, w := range e.Command {
		words[j] = quote(w)
	}
	line("exec %s", strings.Join(words, " "))
	line(") <%s >%s 2>%s", stdin, stdout, stderr)
	line(`tes_code=$?; tes_end %d "$tes_start" "$tes_code" %s %s`, i, stdout, stderr)
	if !e.IgnoreError {
		line(`[ "$tes_code" = 0 ] || exit "$tes_code"`)
	}
}

func (o *Output) write(line func(string, ...any), i int) {
	to := fmt.Sprintf(`"$TRADEWIND_OUTPUT"/%d`, i)
	switch {
	case wild(o.Path):
		line("mkdir -p %s", to)
		line("for f in %s; do [ -f \"$f\" ] || continue; r=${f#%s}; r=${r#/}", pattern(o.Path), quote(o.PathPrefix))
		line(`case $r in */*) mkdir -p %s/"${r%%/*}";; esac; cp "$f" %[1]s/"$r" && `+
			`tes_left %d "$f" "$r" || exit 125; done`,
			to, i)
	case o.Type == Directory:
		line("mkdir -p %s && cp -R %s/. %[1]s/ || exit 125", to, quote(o.Path))
		line(`(cd %s && find . -type f) | while read -r f; do tes_left %d %[1]s/"$f" "${f#./}"; done`, to, i)
	default:
		line(`if [ -d %s ]; then cp -R %[1]s %s; elif [ -e %[1]s ]; then cp %[1]s %[2]s && tes_left %d %[2]s ""; fi`,
			quote(o.Path), to, i)
	}
}

// quote makes one word of a shell's.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// wild says whether a path has wildcards.
func wild(p string) bool { return strings.ContainsAny(p, "*?[") }

// pattern quotes all of a path but its wildcards.
func pattern(p string) string {
	var b strings.Builder
	for _, r := range p {
		if r < 0x80 && !strings.ContainsRune("*?[]!-/._", r) && !isWord(r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
