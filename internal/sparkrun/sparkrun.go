// Package sparkrun writes the script with which a machine runs a Spark application: with the Spark that the machine
// has, or else one from PyPI; in one process if the task has one machine, and as a standalone cluster of Spark if it
// has several.
package sparkrun

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

//go:embed run.sh
var script string

// Script returns the script of an application. Its version must be valid.
func Script(a *dag.SparkApp) string {
	version := a.Version
	if version == "" {
		version = dag.DefaultSpark
	}
	want, _ := dag.ParseVersionRange(version) // valid
	later := "0"
	if want.OrLater {
		later = "1"
	}
	var b strings.Builder
	b.WriteString("set -eu\n")
	for _, v := range [][2]string{
		{"spark_want", strings.TrimSuffix(version, "+")}, {"spark_later", later}, {"spark_pip", want.Pip()},
		{"spark_conf", strings.Join(slices.Sorted(maps.Keys(a.Conf)), " ")},
	} {
		b.WriteString(v[0] + "=" + quote(v[1]) + "\n")
	}
	b.WriteString("submit() { \"$SPARK_HOME/bin/spark-submit\" \"$@\"" + arguments(a) + "; }\n")
	b.WriteString(script)
	return b.String()
}

// arguments returns the words after spark-submit that are the same in all places.
func arguments(a *dag.SparkApp) string {
	var b strings.Builder
	word := func(text ...string) { b.WriteString(" \\\n\t" + strings.Join(text, " ")) }
	files := func(option string, list []string) {
		paths := make([]string, len(list))
		for i, f := range list {
			paths[i] = dag.SparkPath(f)
		}
		if len(list) > 0 {
			word(option, quote(strings.Join(paths, ",")))
		}
	}
	if a.Class != "" {
		word("--class", quote(a.Class))
	}
	files("--py-files", a.PyFiles)
	files("--jars", a.Jars)
	if len(a.Packages) > 0 {
		word("--packages", quote(strings.Join(a.Packages, ",")))
	}
	for _, name := range slices.Sorted(maps.Keys(a.Conf)) {
		word("--conf", quote(name+"="+a.Conf[name]))
	}
	word(quote(dag.SparkPath(a.Main)))
	for _, arg := range a.Args {
		word(expand(arg))
	}
	return b.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// dollar is a variable, or a character that has a special meaning between double quotes.
var dollar = regexp.MustCompile("\\$\\$|\\$[A-Za-z_][A-Za-z0-9_]*|\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}|[$`\"\\\\]")

// expand quotes an argument, in which $NAME and ${NAME} stand for a variable and $$ for a dollar sign.
func expand(s string) string {
	return `"` + dollar.ReplaceAllStringFunc(s, func(m string) string {
		switch {
		case m == "$$":
			return `\$`
		case len(m) > 1:
			return m
		}
		return `\` + m
	}) + `"`
}
