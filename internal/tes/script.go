package tes

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// The script's functions, for any /bin/sh. TES separates stdout and stderr, so the output of executors goes to files.
// The last part of both is logged after a line that states their sizes in bytes, so that output of an executor cannot
// be mistaken for a line of the script.
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
tes_put() {
  if [ -d "$2" ]; then
    mkdir -p "$3" && cp -RL "$2/." "$3/" || return 1
    (cd "$3" && find . -type f) | while IFS= read -r f; do tes_left "$1" "$3/$f" "$4${4:+/}${f#./}"; done
  else
    cp "$2" "$3" && tes_left "$1" "$3" "$4"
  fi
}
`

// script returns a script that runs the executors in order, and then puts their outputs where the agent expects them.
// It also does so after an executor failed, if there are outputs: workflow engines read the files of failed tasks.
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
	for _, out := range t.Outputs { // executors may expect these directories
		if !out.wild() {
			line("mkdir -p %s || exit 125", quote(path.Dir(out.Path)))
		}
	}
	line("tes_leave() {")
	for i, out := range t.Outputs {
		line("(") // a failing output does not prevent the others
		out.write(line, i, t.ofNextflow())
		line(") || tes_bad=125")
	}
	line("return ${tes_bad:-0}\n}")
	for i, e := range t.Executors {
		e.write(line, i)
	}
	line("tes_leave")
	return b.String()
}

// ofNextflow reports whether Nextflow made the task, recognised by the names of its script and of its exit code file.
// Nextflow checks outputs itself and also lists optional ones. For other tasks, a missing output is a failure.
func (t *Task) ofNextflow() bool {
	return slices.ContainsFunc(t.Inputs, func(in Input) bool { return path.Base(in.Path) == ".command.run" }) &&
		slices.ContainsFunc(t.Outputs, func(out Output) bool { return path.Base(out.Path) == ".exitcode" })
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
		line(`[ "$tes_code" = 0 ] || { tes_leave >/dev/null 2>&1; exit "$tes_code"; }`)
	}
}

func (o *Output) write(line func(string, ...any), i int, mayMiss bool) {
	to := fmt.Sprintf(`"$TRADEWIND_OUTPUT"/%d`, i)
	if o.wild() {
		line("mkdir -p %s", to)
		line("for f in %s; do [ -e \"$f\" ] || continue; r=${f#%s}; r=${r#/}", pattern(o.Path), quote(o.PathPrefix))
		if o.Type == Directory {
			line(`[ -d "$f" ] || { echo "$f is no directory" >&2; exit 125; }`)
		}
		line(`case $r in */*) mkdir -p %s/"${r%%/*}";; esac`, to)
		line(`tes_put %d "$f" %s/"$r" "$r" || exit 125; done`, i, to)
		return
	}
	missing := "true" // the agent reports it
	switch {
	case mayMiss:
		missing = "mkdir -p " + to // an empty directory: nothing is copied
	case o.Type == Directory:
		missing = fmt.Sprintf("echo %s >&2; exit 125", quote("there is no directory "+o.Path))
	}
	if o.Type == Directory {
		line("if [ -e %[1]s ] && ! [ -d %[1]s ]; then echo %[2]s >&2; exit 125; fi", quote(o.Path),
			quote(o.Path+" is no directory"))
	}
	line("if [ -e %[1]s ]; then tes_put %[2]d %[1]s %[3]s ''; else %[4]s; fi", quote(o.Path), i, to, missing)
}

// quote quotes s as one word for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// wild reports whether a path has wildcards.
func wild(p string) bool { return strings.ContainsAny(p, "*?[") }

// wild reports whether an output's path has wildcards. Without a prefix, a bracket is part of the name: some engines
// have only the wildcards star and question mark, and send brackets in names unescaped.
func (o *Output) wild() bool {
	return strings.ContainsAny(o.Path, "*?") || o.PathPrefix != "" && wild(o.Path)
}

// pattern quotes all of a path except its wildcards.
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
