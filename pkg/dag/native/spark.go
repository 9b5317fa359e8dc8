package native

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// readSpark reads the application of a Spark task.
func (r *reader) readSpark(t *dag.Task, n *yaml.Node) error {
	y := &r.Reader
	if n.Kind != yaml.MappingNode {
		return r.Fault(n, "is not a mapping", "spark: {main: jobs/etl.py, args: [2024]}")
	}
	texts := func(to func(*dag.SparkApp) *[]string) func(*dag.SparkApp, *yaml.Node) error {
		return func(a *dag.SparkApp, n *yaml.Node) error {
			return r.List(n, func(_ int, n *yaml.Node) error {
				s, err := r.Text(n)
				*to(a) = append(*to(a), s)
				return err
			})
		}
	}
	text := func(to func(*dag.SparkApp) *string) func(*dag.SparkApp, *yaml.Node) error {
		return yamlfile.TextField(y, to, func(s string) (string, error) { return s, nil }) // checked below
	}
	t.Spark, r.spark = &dag.SparkApp{}, n
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.SparkApp]{
		"main":     text(func(a *dag.SparkApp) *string { return &a.Main }),
		"class":    text(func(a *dag.SparkApp) *string { return &a.Class }),
		"version":  text(func(a *dag.SparkApp) *string { return &a.Version }),
		"args":     texts(func(a *dag.SparkApp) *[]string { return &a.Args }),
		"pyFiles":  texts(func(a *dag.SparkApp) *[]string { return &a.PyFiles }),
		"jars":     texts(func(a *dag.SparkApp) *[]string { return &a.Jars }),
		"packages": texts(func(a *dag.SparkApp) *[]string { return &a.Packages }),
		"conf": func(a *dag.SparkApp, n *yaml.Node) (err error) {
			a.Conf, err = r.Texts(n, func(string, string) error { return nil })
			return err
		},
	}, t.Spark)
	if err == nil {
		err = t.Spark.Check()
		err = fault.At(r.positionOf(n, err), err)
	}
	return err
}

// positionOf returns the position of the field of a mapping that an error is about, or of the mapping.
func (r *reader) positionOf(n *yaml.Node, err error) fault.Position {
	field, fieldErr := r.fieldOf(n, fault.FieldOf(err))
	if field == nil || fieldErr != nil {
		return yamlfile.PositionOf(n)
	}
	return yamlfile.PositionOf(field)
}

// readSparkService reads the service of an alternative: its name, or a mapping with its release.
func (r *reader) readSparkService(to *dag.Resources, n *yaml.Node) error {
	y := &r.Reader
	name := yamlfile.TextField(y, func(r *dag.Resources) *string { return &r.Service },
		yamlfile.Checked(dag.CheckSparkService))
	if n.Kind != yaml.MappingNode {
		to.Release = ""
		return name(to, n)
	}
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Resources]{
		"name": name,
		"release": yamlfile.TextField(y, func(r *dag.Resources) *string { return &r.Release },
			yamlfile.Checked(jobtext.CheckWord)),
	}, to)
	if err == nil && to.Service == "" {
		err = fault.Within("name", r.Fault(n, "is missing", "service: {name: emr, release: 7.5+}"))
	}
	return err
}

// endSpark makes the checks that concern several fields of a Spark task, and adds its machines and files.
func (r *reader) endSpark(t *dag.Task, e yamlfile.Entry) error {
	stated, err := r.fieldOf(e.Node, "nodes")
	if err != nil {
		return err
	}
	if t.Spark != nil && stated == nil {
		t.Nodes, t.MaxNodes = 1, 0 // the defaults are for other tasks
	}
	if stated == nil || t.Nodes == 1 {
		t.MakeSpark(func(field string) {
			at := r.positionOf(r.spark, fault.Within(field, fault.New("", "")))
			r.files = append(r.files, dag.Mark{Alternative: dag.FilesOfTask, Pos: at,
				Field: dag.InputField(len(t.Inputs) - 1), Path: "spark." + field})
		})
	}
	if alternative, err := t.CheckSpark(); err != nil {
		return r.atAlternative(alternative, e, err)
	}
	return nil
}

// atAlternative adds the position of a fault of a Spark task.
func (r *reader) atAlternative(alternative int, e yamlfile.Entry, err error) error {
	switch field := fault.FieldOf(err); {
	case alternative != dag.FilesOfTask:
		m := r.markOf(alternative, field)
		path, _ := strings.CutSuffix(m.Path, "."+field) // the error has it
		return fault.At(m.Pos, fault.Within(path, err))
	case field == executorsField && r.executors != nil:
		return fault.At(yamlfile.PositionOf(r.executors), fault.Within("resources", err))
	default:
		return fault.At(r.positionIn(e, err), err)
	}
}

// markOf returns the mark of a field of an alternative, or else of its service.
func (r *reader) markOf(alternative int, field string) (of dag.Mark) {
	for _, m := range slices.Concat(r.marks, r.serviceMarks) {
		if int(m.Alternative) == alternative && (m.Field == field || m.Field == "service" && of.Path == "") {
			of = m
		}
	}
	if of.Path == "" { // an alternative of defaults
		of = dag.Mark{Pos: r.origin.Tasks[r.current], Path: "resources." + field}
	}
	return of
}
