package dag

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// APIVersion is the value of apiVersion in a file of the native form.
const APIVersion = "tradewind/v1"

// Marshal writes a job in the native format, whatever format it was read from. Reading the result gives the same job
// except for Format, Warnings, and the order of Edges, which is that of MergeEdges. It writes only the names of
// secrets, not their values. An invalid job is an error.
func Marshal(j *Job) ([]byte, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	w := writer{job: j, graph: j.Graph(), sizes: NewOutputSizes(j), alone: map[int]bool{}}
	for _, i := range j.shareMany(ShareTogether, nil) {
		w.alone[i] = true
	}
	if err := w.encode(w.head(), ""); err != nil {
		return nil, err
	}
	w.out.WriteString("tasks:\n")
	// The emitter keeps every event of a document, so a large job is written in parts.
	const part = 256
	for from := 0; from < len(j.Tasks); from += part {
		tasks := block()
		for i := from; i < min(from+part, len(j.Tasks)); i++ {
			name := j.Tasks[i].Name
			if a, member := j.ArrayOf(i); a != nil {
				if member > 0 {
					continue // written with the first
				}
				if err := w.checkMembers(a); err != nil {
					return nil, err
				}
				name = a.Name
			}
			t, err := w.task(i)
			if err != nil {
				return nil, err
			}
			tasks.add(name, t)
		}
		if len(tasks.node.Content) == 0 {
			continue
		}
		if err := w.encode(tasks.node, "  "); err != nil {
			return nil, err
		}
	}
	return w.out.Bytes(), nil
}

// writer writes a job as node trees: one for its head, and one for each group of tasks.
type writer struct {
	job   *Job
	graph *Graph
	sizes *OutputSizes
	alone map[int]bool // tasks that do not share machines, but would if the file did not say so
	out   bytes.Buffer
}

// encode writes a tree with all lines indented. This is valid because no scalar is folded over several lines, and
// lines of literal blocks keep their indentation relative to their key.
func (w *writer) encode(tree *yaml.Node, indent string) error {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(tree)
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		return fmt.Errorf("dag: writing job %s: %w", w.job.Name, err)
	}
	for line := range bytes.Lines(b.Bytes()) {
		if len(line) > 1 {
			w.out.WriteString(indent)
		}
		w.out.Write(line)
	}
	return nil
}

func (w *writer) head() *yaml.Node {
	j := w.job
	m := block()
	m.add("apiVersion", plain(APIVersion))
	m.add("name", text(j.Name))
	m.text("description", j.Description)
	m.text("objective", string(j.Objective))
	if w := j.Weights; w != nil {
		weights := flow()
		weights.add("cost", plain(jobtext.FormatNumber(w.Cost)))
		weights.add("time", plain(jobtext.FormatNumber(w.Time)))
		m.part("weights", weights)
	}
	if j.Deadline > 0 {
		m.add("deadline", plain(FormatDuration(j.Deadline)))
	}
	if j.Budget > 0 {
		m.add("budget", plain(jobtext.FormatNumber(float64(j.Budget))))
	}
	m.text("queue", j.Queue)
	m.text("namespace", j.Namespace)
	m.text("announce", j.Announce)
	notify := block()
	notify.text("webhook", j.Notify.Webhook)
	notify.text("command", j.Notify.Command)
	notify.texts("email", j.Notify.Email)
	m.part("notify", notify)
	m.count("priority", j.Priority)
	m.text("onFailure", string(j.OnFailure))
	if j.Infeasible != Retry {
		m.text("infeasible", string(j.Infeasible))
	}
	if j.Patience > 0 {
		m.add("patience", plain(FormatDuration(j.Patience)))
	}
	if j.KeepOnFailure > 0 {
		m.add("keepOnFailure", plain(FormatDuration(j.KeepOnFailure)))
	}
	if j.Keep != 0 {
		m.add("keep", plain(FormatKeep(j.Keep)))
	}
	m.texts("regions", j.Regions)
	m.list("placement", writePlacement(j.Placement))
	return m.node
}

func (w *writer) task(i int) (*yaml.Node, error) {
	t := &w.job.Tasks[i]
	m := block()
	inputs, outputs := t.Inputs, t.Outputs
	if a, _ := w.job.ArrayOf(i); a != nil {
		writeArray(m, a)
		inputs, outputs = a.Template(t)
	}
	m.text("setup", t.Setup)
	m.text("run", t.Run)
	m.part("spark", writeSpark(t.Spark))
	if t.Recorded > 0 {
		m.add("recorded", plain(FormatDuration(t.Recorded)))
	}
	if t.Login {
		m.add("login", plain("true"))
	}
	env := block()
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		env.add(name, text(t.Env[name]))
	}
	m.part("env", env)
	m.texts("secrets", t.Secrets)
	m.text("workdir", t.Workdir)
	if r := t.Repository; r != nil {
		from := flow()
		from.text("url", r.URL)
		from.text("ref", r.Ref)
		m.part("workdir", from)
	}
	switch {
	case t.MaxNodes > 0:
		m.add("nodes", plain(fmt.Sprintf("%d-%d", t.Nodes, t.MaxNodes)))
	case t.Nodes != 1 && t.Spark == nil:
		m.count("nodes", t.Nodes)
	}
	after, err := w.after(i)
	if err != nil {
		return nil, err
	}
	m.list("after", after)
	m.text("gang", t.Gang)
	m.text("joins", t.Joins)
	m.text("role", t.Role)
	m.text("framework", string(t.Framework))
	m.text("within", string(t.Within))
	m.part("service", writeService(t.Service))
	m.part("on", writeOn(t.On))
	m.part("labels", writeLabels(t.Labels))
	m.list("placement", writePlacement(t.Placement))
	m.list("inputs", writeInputs(inputs))
	m.list("outputs", writeOutputs(outputs))
	if c := t.Checkpoint; c != nil {
		at := flow()
		if c.Every > 0 {
			at.add("every", plain(FormatDuration(c.Every)))
		}
		at.text("path", c.Path)
		at.size("size", c.Size)
		m.part("checkpoint", at)
	}
	m.part("resources", writeAlternatives(t))
	writeTime(m, &t.Time)
	m.text("reference", t.Reference)
	m.count("retries", t.Retries)
	a, _ := w.job.ArrayOf(i)
	switch {
	case t.Share == ShareJob:
		m.add("share", plain("true"))
	case w.alone[i] || a != nil && t.ShareUnsaid() == ShareJob:
		m.add("share", plain("false"))
	}
	if t.Timeout > 0 {
		m.add("timeout", plain(FormatDuration(t.Timeout)))
	}
	return m.node, nil
}

// after returns the entries of the field after. If a task reads all outputs of another, its entry
// is only that name.
func (w *writer) after(i int) ([]*yaml.Node, error) {
	var list []*yaml.Node
	in := w.graph.In(i)
	for n := 0; n < len(in); n++ {
		e := &w.job.Edges[in[n]]
		data, err := w.sizes.Total(e.From, e.Outputs)
		if err != nil {
			return nil, w.job.AtTask(e.From, err)
		}
		name := text(w.job.Tasks[e.From].Name)
		if a, _ := w.job.ArrayOf(e.From); a != nil && (e.All || e.Each) {
			name = text(a.Name)
			if e.All {
				if err := w.checkWhole(a, i, in[n:]); err != nil {
					return nil, err
				}
				n += a.Size - 1
			}
		}
		if e.Outputs == nil && e.Data == data && !e.Each {
			list = append(list, name)
			continue
		}
		entry := flow()
		entry.add("task", name)
		if e.Each {
			entry.add("each", plain("true"))
		}
		if e.Outputs != nil {
			outputs := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
			for _, o := range e.Outputs {
				outputs.Content = append(outputs.Content, text(o))
			}
			entry.add("outputs", outputs)
		}
		if e.Data != data {
			entry.add("data", plain(FormatSize(e.Data)))
		}
		list = append(list, entry.node)
	}
	return list, nil
}

// checkWhole returns an error unless the first edges to a task are equal ones from all members of
// an array.
func (w *writer) checkWhole(a *Array, task int, in []int32) error {
	for k := range a.Size {
		if k < len(in) {
			e, first := w.job.Edges[in[k]], w.job.Edges[in[0]]
			if first.From += k; e.All && reflect.DeepEqual(e, first) {
				continue
			}
		}
		return w.job.AtTask(task, fault.Within("after", fault.New("does not wait for all members of "+
			fault.Quote(a.Name)+" alike", "")))
	}
	return nil
}

// checkMembers returns an error if members of an array differ in a way that a job file cannot
// express.
func (w *writer) checkMembers(a *Array) error {
	want := make([]Task, a.Size)
	first := w.graph.In(a.First)
	for k := range want {
		t := &want[k]
		*t = w.job.Tasks[a.First]
		t.Name, t.Inputs, t.Outputs = a.Member(k), slices.Clone(t.Inputs), slices.Clone(t.Outputs)
	}
	a.Expand(want)
	for k := range want {
		in := w.graph.In(a.First + k)
		same := len(in) == len(first) && reflect.DeepEqual(want[k], w.job.Tasks[a.First+k])
		for i := 0; same && i < len(in); i++ {
			e := w.job.Edges[first[i]]
			if e.To += k; e.Each {
				e.From += k
			}
			same = reflect.DeepEqual(e, w.job.Edges[in[i]])
		}
		if !same {
			return w.job.AtTask(a.First+k, fault.New("differs from the first member of its array", ""))
		}
	}
	return nil
}

func writeArray(m *mapping, a *Array) {
	list := func(values []string) *yaml.Node {
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, v := range values {
			n.Content = append(n.Content, text(v))
		}
		return n
	}
	span := flow()
	switch {
	case a.Matrix != nil:
		for _, x := range a.Matrix {
			span.add(x.Name, list(x.Values))
		}
		m.part("matrix", span)
	case a.Values != nil:
		span.add("values", list(a.Values))
		m.part("array", span)
	case a.From == 0 && a.Step <= 1:
		m.count("array", a.Size)
	default:
		span.count("from", a.From)
		span.add("to", plain(strconv.Itoa(a.Index(a.Size-1))))
		span.count("step", a.Step)
		m.part("array", span)
	}
	m.count("maxParallel", a.MaxParallel)
	m.count("allowFailures", a.AllowFailures)
}

func writeInputs(inputs []Input) []*yaml.Node {
	var list []*yaml.Node
	for _, in := range inputs {
		m := flow()
		m.text("uri", in.URI)
		m.text("path", in.Path)
		m.size("size", in.Size)
		switch in.Mount {
		case Copied:
		case MountRead:
			m.add("mount", plain("true"))
		default:
			m.text("mount", string(in.Mount))
		}
		m.text("bucket", string(in.Bucket))
		m.text("source", in.Source)
		list = append(list, m.node)
	}
	return list
}

func writeOutputs(outputs []Output) []*yaml.Node {
	var list []*yaml.Node
	for _, o := range outputs {
		m := flow()
		m.text("name", o.Name)
		m.text("path", o.Path)
		m.text("uri", o.URI)
		m.size("size", o.Size)
		list = append(list, m.node)
	}
	return list
}

func writeAlternatives(t *Task) *mapping {
	executors := func(m *mapping) *mapping {
		if !t.Executors.IsZero() {
			m.add("executors", plain(FormatExecutors(t.Executors)))
		}
		return m
	}
	if len(t.Resources) == 1 && !t.Ordered && len(t.Services) == 0 {
		return executors(writeResources(&t.Resources[0]))
	}
	var list []*yaml.Node
	for _, of := range [][]Resources{t.Services, t.Resources} {
		for i := range of {
			list = append(list, writeResources(&of[i]).node)
		}
	}
	m := executors(block())
	if t.Ordered {
		m.list("ordered", list)
	} else {
		m.list("anyOf", list)
	}
	return m
}

func writeResources(r *Resources) *mapping {
	m := flow()
	if !r.CPUs.IsZero() {
		m.add("cpus", plain(formatRange(r.CPUs, jobtext.FormatNumber)))
	}
	if !r.Memory.IsZero() {
		m.add("memory", plain(formatRange(r.Memory, formatMemory)))
	}
	if r.Accelerator != "" {
		m.text("accelerators", AcceleratorKey(r.Accelerator, r.AcceleratorCount))
	}
	m.text("cloud", r.Cloud)
	m.text("region", r.Region)
	m.text("zone", r.Zone)
	m.text("instanceType", r.InstanceType)
	m.text("family", r.Family)
	m.text("cpu", r.CPU)
	m.text("arch", r.Arch)
	if r.Burstable {
		m.add("burstable", plain("true"))
	}
	m.text("market", string(r.Market))
	if r.Release != "" {
		service := flow()
		service.text("name", r.Service)
		service.text("release", r.Release)
		m.part("service", service)
	} else {
		m.text("service", r.Service)
	}
	m.size("disk", r.DiskGiB)
	if r.MaxUSDPerHour > 0 {
		m.add("maxUSDPerHour", plain(jobtext.FormatNumber(float64(r.MaxUSDPerHour))))
	}
	m.text("image", r.Image)
	return m
}

// writeSpark writes an application in the form in which it is read.
func writeSpark(a *SparkApp) *mapping {
	m := block()
	if a == nil {
		return m
	}
	m.text("main", a.Main)
	m.text("class", a.Class)
	m.texts("args", a.Args)
	m.texts("pyFiles", a.PyFiles)
	m.texts("jars", a.Jars)
	m.texts("packages", a.Packages)
	conf := block()
	for _, name := range slices.Sorted(maps.Keys(a.Conf)) {
		conf.add(name, text(a.Conf[name]))
	}
	m.part("conf", conf)
	m.text("version", a.Version)
	return m
}

// writeService writes one replica in the form in which it is read.
func writeService(s *Service) *mapping {
	m := flow()
	if s == nil {
		return m
	}
	m.text("of", s.Of)
	m.count("port", s.Port)
	is, r := flow(), &s.Readiness
	is.text("path", r.Path)
	is.text("post", r.Post)
	headers := flow()
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		headers.add(name, text(r.Headers[name]))
	}
	is.part("headers", headers)
	if r.InitialDelay > 0 {
		is.add("initialDelay", plain(FormatDuration(r.InitialDelay)))
	}
	if r.Timeout > 0 {
		is.add("timeout", plain(FormatDuration(r.Timeout)))
	}
	m.part("readiness", is)
	return m
}

// writeOn writes reactions in the form in which they are read.
func writeOn(on []Reaction) *mapping {
	m := block()
	for i, r := range on {
		if slices.ContainsFunc(on[:i], func(before Reaction) bool { return before.Event == r.Event }) {
			continue
		}
		var list []*yaml.Node
		for _, r := range on[i:] {
			if r.Event != on[i].Event {
				continue
			}
			one := flow()
			one.text("action", string(r.Action))
			one.count("limit", r.Limit)
			var codes []*yaml.Node
			for _, code := range r.ExitCodes {
				codes = append(codes, plain(fmt.Sprint(code)))
			}
			one.list("exitCodes", codes)
			list = append(list, one.node)
		}
		m.list(string(r.Event), list)
	}
	return m
}

func writeLabels(labels map[string]string) *mapping {
	m := flow()
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		m.add(k, text(labels[k]))
	}
	return m
}

// writePlacement writes rules in the form in which they are read.
func writePlacement(rules []Placement) (list []*yaml.Node) {
	for i := range rules {
		p, m := &rules[i], flow()
		m.text("spread", string(p.Spread))
		m.count("max", p.Max)
		m.text("pack", string(p.Pack))
		m.part("apart", writeLabels(p.Apart))
		m.text("by", string(p.By))
		if len(p.Of) > 0 {
			names := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
			for _, name := range p.Of {
				names.Content = append(names.Content, text(name))
			}
			m.add("of", names)
		}
		list = append(list, m.node)
	}
	return list
}

func writeTime(m *mapping, t *TimeEstimate) {
	if len(t.On) == 0 && t.FLOPs == 0 && t.Serial == nil && len(t.ByNodes) == 0 && !t.Only {
		if t.Default > 0 {
			m.add("time", plain(FormatDuration(t.Default)))
		}
		return
	}
	on := flow()
	on.number(jobtext.FLOPsKey, t.FLOPs)
	on.number(jobtext.EfficiencyKey, t.Efficiency)
	if t.Serial != nil {
		on.add(jobtext.SerialKey, plain(jobtext.FormatNumber(*t.Serial)))
	}
	byNodes := flow()
	for _, n := range slices.Sorted(maps.Keys(t.ByNodes)) {
		byNodes.add(strconv.Itoa(n), plain(FormatDuration(t.ByNodes[n])))
	}
	on.part(jobtext.NodesKey, byNodes)
	for _, key := range slices.Sorted(maps.Keys(t.On)) {
		on.add(key, plain(FormatDuration(t.On[key])))
	}
	if t.Default > 0 {
		on.add(jobtext.DefaultTimeKey, plain(FormatDuration(t.Default)))
	}
	if t.Only {
		on.add(jobtext.DefaultTimeKey, plain(jobtext.NoDefaultTime))
	}
	m.part("time", on)
}

// mapping builds a YAML mapping. Its methods omit empty values.
type mapping struct{ node *yaml.Node }

func block() *mapping { return &mapping{&yaml.Node{Kind: yaml.MappingNode}} }
func flow() *mapping  { return &mapping{&yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}} }

func (m *mapping) add(key string, value *yaml.Node) {
	m.node.Content = append(m.node.Content, text(key), value)
}

func (m *mapping) text(key, value string) {
	if value != "" {
		m.add(key, text(value))
	}
}

func (m *mapping) texts(key string, values []string) {
	list := make([]*yaml.Node, len(values))
	for i, v := range values {
		list[i] = text(v)
	}
	m.list(key, list)
}

func (m *mapping) count(key string, n int) {
	if n != 0 {
		m.add(key, plain(strconv.Itoa(n)))
	}
}

func (m *mapping) number(key string, v float64) {
	if v != 0 {
		m.add(key, plain(jobtext.FormatNumber(v)))
	}
}

func (m *mapping) size(key string, g GiB) {
	if g != 0 {
		m.add(key, plain(FormatSize(g)))
	}
}

func (m *mapping) list(key string, values []*yaml.Node) {
	if len(values) > 0 {
		m.add(key, &yaml.Node{Kind: yaml.SequenceNode, Content: values})
	}
}

func (m *mapping) part(key string, part *mapping) {
	if len(part.node.Content) > 0 {
		m.add(key, part.node)
	}
}

// plain returns a scalar that needs no quotes.
func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// text returns a scalar that reads back as the same text: ordinary text with several lines as a literal block, and
// text with unusual characters or white space in double quotes.
func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	ordinary := !strings.ContainsFunc(
		s,
		func(r rune) bool { return r != '\n' && (!unicode.IsPrint(r) || r == '\ufeff') },
	)
	lines := strings.Contains(s, "\n")
	switch {
	case !ordinary,
		lines && (strings.Contains(s, " \n") || strings.HasSuffix(s, " ") ||
			strings.HasSuffix(s, "\n\n") || s[0] == ' ' || s[0] == '\n'):
		n.Style = yaml.DoubleQuotedStyle
	case lines:
		n.Style = yaml.LiteralStyle
	}
	return n
}
