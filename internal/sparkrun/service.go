package sparkrun

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Prefixes are where the files of an attempt on a service are, as prefixes of the place's own store that end in a
// slash: the files of the application, the inputs and the outputs.
type Prefixes struct{ Code, Inputs, Outputs string }

// Env returns the variables of the task that an application on a service has.
func (p Prefixes) Env() map[string]string {
	return map[string]string{
		"TRADEWIND_INPUTS": strings.TrimSuffix(p.Inputs, "/"), "TRADEWIND_OUTPUT": strings.TrimSuffix(p.Outputs, "/"),
	}
}

// OnService returns an application as a service runs it: its files are below p.Code unless they have URIs, and the
// variables in its arguments are those of p and env. It returns an error for a variable that neither has.
func OnService(a *dag.SparkApp, p Prefixes, env map[string]string) (service.App, error) {
	file := func(name string) string {
		if strings.Contains(name, "://") {
			return name
		}
		return p.Code + dag.SparkPath(name)
	}
	files := func(list []string) (all []string) {
		for _, f := range list {
			all = append(all, file(f))
		}
		return all
	}
	app := service.App{Main: file(a.Main), Class: a.Class, PyFiles: files(a.PyFiles), Jars: files(a.Jars),
		Packages: a.Packages, Conf: a.Conf}
	own := p.Env()
	for i, arg := range a.Args {
		var missing string
		text := dollar.ReplaceAllStringFunc(arg, func(m string) string {
			switch {
			case m == "$$":
				return "$"
			case len(m) == 1: // special only in a shell
				return m
			}
			name := strings.Trim(m, "${}")
			if v, ok := own[name]; ok {
				return v
			}
			v, ok := env[name]
			if !ok {
				missing = name
			}
			return v
		})
		if missing != "" {
			return app, fault.Within("args"+fault.Index(i), fault.New("a service has no variable "+missing,
				"write $TRADEWIND_INPUTS, $TRADEWIND_OUTPUT, or a variable of env"))
		}
		app.Args = append(app.Args, text)
	}
	return app, nil
}
