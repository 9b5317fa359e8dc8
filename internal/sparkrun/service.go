package sparkrun

import (
	"path"
	"regexp"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Prefixes are where the files of an attempt on a service are, as prefixes of the place's own store that end in a
// slash: the files of the application, the inputs and the outputs.
type Prefixes struct {
	Code, Inputs, Outputs string
	// Files are the URIs of single files and folders that are elsewhere, by their paths below the task's directory or
	// its inputs. A folder's ends in a slash.
	Files map[string]string
}

// at returns the URI of a path, below a prefix unless Files has it or a folder above it. Without either it is "".
func (p Prefixes) at(prefix, name string) string {
	name = strings.Trim(name, "/")
	for dir, rest := name, ""; dir != "." && dir != ""; dir = path.Dir(dir) {
		if uri, ok := p.Files[dir]; ok {
			return strings.TrimSuffix(uri, "/") + rest
		}
		rest = "/" + path.Base(dir) + rest
	}
	if prefix == "" {
		return ""
	}
	return strings.TrimSuffix(prefix+name, "/")
}

// dataPath is a path below one of the task's folders: $TRADEWIND_INPUTS/words.txt, ${TRADEWIND_OUTPUT}.
var dataPath = regexp.MustCompile(`\$(?:\{TRADEWIND_(INPUTS|OUTPUT)\}|TRADEWIND_(INPUTS|OUTPUT)\b)(/[^\s,;:$]*)?`)

// OnService returns an application as a service runs it: its files, and the paths and variables in its arguments, are
// those of p and env. It returns an error for a path or variable that neither has.
func OnService(a *dag.SparkApp, p Prefixes, env map[string]string) (app service.App, err error) {
	file := func(field, name string) string {
		if strings.Contains(name, "://") {
			return name
		}
		uri := p.at(p.Code, dag.SparkPath(name))
		if uri == "" && err == nil {
			err = fault.Within(field, fault.New("a service does not have "+fault.Quote(name),
				"write the URI of the file"))
		}
		return uri
	}
	files := func(field string, list []string) (all []string) {
		for i, f := range list {
			all = append(all, file(field+fault.Index(i), f))
		}
		return all
	}
	app = service.App{Main: file("main", a.Main), Class: a.Class, PyFiles: files("pyFiles", a.PyFiles),
		Jars: files("jars", a.Jars), Packages: a.Packages, Conf: a.Conf}
	for i, arg := range a.Args {
		text, missing := p.argument(arg, env)
		if missing != "" && err == nil {
			err = fault.Within("args"+fault.Index(i), fault.New("a service does not have "+missing,
				"write $TRADEWIND_INPUTS/NAME of an input, $TRADEWIND_OUTPUT, or a variable of env"))
		}
		app.Args = append(app.Args, text)
	}
	return app, err
}

// argument returns an argument with URIs for paths, and the first path or variable that is missing.
func (p Prefixes) argument(arg string, env map[string]string) (text, missing string) {
	var b strings.Builder
	for _, part := range strings.SplitAfter(arg, "$$") { // each $$ is a dollar sign
		dollars := strings.HasSuffix(part, "$$")
		part = dataPath.ReplaceAllStringFunc(strings.TrimSuffix(part, "$$"), func(m string) string {
			of := dataPath.FindStringSubmatch(m)
			uri := p.at(p.Inputs, of[3])
			if of[1]+of[2] == "OUTPUT" {
				uri = strings.TrimSuffix(p.Outputs, "/") + of[3]
			}
			if uri == "" {
				missing = m
			}
			return uri
		})
		b.WriteString(dollar.ReplaceAllStringFunc(part, func(m string) string {
			v, ok := env[strings.Trim(m, "${}")]
			if len(m) == 1 { // special only in a shell
				return m
			}
			if !ok {
				missing = m
			}
			return v
		}))
		if dollars {
			b.WriteByte('$')
		}
	}
	return b.String(), missing
}
