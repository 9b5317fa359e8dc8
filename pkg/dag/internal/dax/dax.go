// Package dax reads Pegasus DAX 2 and 3, an XML format for abstract workflows.
package dax

import (
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/recorded"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/stopping"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// reader reads Pegasus DAX as a stream of elements. From the schemas dax-2.1 and dax-3.6 it reads jobs with their
// files, profiles and dependencies; the attributes runtime and size are those of the published synthetic workflows.
// It ignores catalogues, metadata and notifications.
type reader struct {
	dec      *xml.Decoder
	importer *recorded.Importer
	pos      fault.Position // of the last token
	children int32          // child elements so far
	root     bool           // the root element has been read
	depth    int            // of the elements around the position
	broken   bool           // nothing more can be read
}

// daxMaxAttributes limits the attributes of one element, because each is compared with all others.
const daxMaxAttributes = 100

// Parse is ParseContext with a context that never ends.
func Parse(name string, data []byte) (*dag.Job, error) {
	return ParseContext(context.Background(), name, data)
}

// ParseContext reads an abstract workflow in Pegasus DAX 2 or 3. data is the unpacked text. The jobs become stand-ins,
// because their programs are only in the catalogues of the original site. It stops when the context ends.
func ParseContext(ctx context.Context, name string, data []byte) (*dag.Job, error) {
	// The decoder reads single bytes. The bufio.Reader makes it call the reader that checks the context
	// only for blocks.
	r := &reader{dec: xml.NewDecoder(bufio.NewReader(stopping.Reader(ctx, data)))}
	r.importer = recorded.NewImporter(name, dag.DAX, func(_ string, d recorded.Dependency) string {
		return fmt.Sprintf("adag/child[%d]/parent/@ref", d.Index)
	})
	return dag.CheckJob(name, r.importer.Job, r.read())
}

func (r *reader) read() error {
	for {
		t, err := r.token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if e, ok := t.(xml.StartElement); ok {
			if err := r.readRoot(e); err != nil {
				return err
			}
		}
	}
	if !r.root {
		return fault.New("there is no adag element", "")
	}
	if len(r.importer.Job.Tasks) == 0 {
		return fault.At(fault.Position{Line: 1, Column: 1}, fault.Within("adag", fault.New("has no job", "")))
	}
	return r.importer.Finish()
}

// token reads a token and records its position. It rejects DOCTYPE, and with it all ways to define entities.
func (r *reader) token() (xml.Token, error) {
	line, column := r.dec.InputPos()
	r.pos = fault.Position{Line: int32(line), Column: int32(column)} //nolint:gosec // at most MaxFileBytes
	t, err := r.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		r.broken = true
		return nil, r.syntax(err)
	}
	switch e := t.(type) {
	case xml.StartElement:
		r.depth++
		return e, r.checkAttributes(e)
	case xml.EndElement:
		r.depth--
	}
	if _, ok := t.(xml.Directive); ok {
		return nil, r.fault("", "DOCTYPE and other directives are not supported", "remove it: a DAX needs none")
	}
	return t, nil
}

func (r *reader) syntax(err error) error {
	e := &dag.Error{
		Line:   int(r.pos.Line),
		Column: int(r.pos.Column),
		Reason: "is not XML: " + strings.TrimPrefix(err.Error(), "xml: "),
		Cause:  err,
	}
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		e.Line, e.Column, e.Reason = syntax.Line, 0, "is not XML: "+syntax.Msg
	}
	if strings.HasSuffix(e.Reason, "unexpected EOF") {
		e.Reason = "is not complete XML: the file ends too early"
	}
	if strings.Contains(err.Error(), "CharsetReader") {
		e.Reason, e.Hint = "is in an encoding that is not supported", "save it as UTF-8"
	}
	return e
}

func (r *reader) checkAttributes(e xml.StartElement) error {
	if len(e.Attr) > daxMaxAttributes {
		return r.fault(e.Name.Local, fmt.Sprintf("has more than %d attributes", daxMaxAttributes), "")
	}
	for i, a := range e.Attr {
		for _, b := range e.Attr[:i] {
			if a.Name == b.Name {
				return r.fault(e.Name.Local+"/@"+a.Name.Local, "is given twice", "remove one")
			}
		}
	}
	return nil
}

// fault returns an error at the position of the last token.
func (r *reader) fault(field, reason, hint string) error {
	return fault.At(r.pos, fault.Within(field, fault.New(reason, hint)))
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// elements calls each for every child element of the current element, until its end. The error has the faults of all
// of them.
func (r *reader) elements(each func(xml.StartElement) error) error {
	var all fault.Faults
	for {
		depth := r.depth
		t, err := r.token()
		if errors.Is(err, io.EOF) {
			err, r.broken = r.syntax(io.ErrUnexpectedEOF), true
		}
		if err == nil {
			switch t := t.(type) {
			case xml.StartElement:
				err = each(t)
			case xml.EndElement:
				return all.Err()
			}
		}
		if !all.Add(err) || r.broken || err != nil && !r.leave(depth) {
			return all.Err()
		}
	}
}

// leave skips the rest of an element that has a fault. depth is that of its parent. It returns
// false if the file ends.
func (r *reader) leave(depth int) bool {
	for r.depth > depth {
		t, err := r.token()
		if r.broken || t == nil && errors.Is(err, io.EOF) {
			return false
		}
	}
	return true
}

// skip skips the rest of the current element.
func (r *reader) skip() error {
	for depth := 1; depth > 0; {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch t.(type) {
		case xml.StartElement:
			if depth++; depth > recorded.MaxDepth {
				reason := fmt.Sprintf("is nested more than %d deep", recorded.MaxDepth)
				return fault.At(r.pos, fault.OverLimit(reason, ""))
			}
		case xml.EndElement:
			depth--
		}
	}
	return nil
}

// text reads the text of the current element, which has at most MaxTextBytes.
func (r *reader) text() (string, error) {
	var b strings.Builder
	for {
		t, err := r.token()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.CharData:
			if b.Len()+len(t) > jobtext.MaxTextBytes {
				return "", fault.At(r.pos, fault.OverLimit(
					fmt.Sprintf("has more than %d bytes", jobtext.MaxTextBytes), ""))
			}
			b.Write(t)
		case xml.StartElement: // a file name within the text
			b.WriteString(daxFile(t))
			if err := r.skip(); err != nil {
				return "", err
			}
		case xml.EndElement:
			return strings.TrimSpace(b.String()), nil
		}
	}
}

// daxFile returns the file that an element names, in the attribute file (DAX 2) or name (DAX 3).
func daxFile(e xml.StartElement) string {
	if f := attribute(e, "file"); f != "" {
		return f
	}
	return attribute(e, "name")
}

func (r *reader) readRoot(e xml.StartElement) error {
	if e.Name.Local != "adag" {
		return r.fault(e.Name.Local, "is not a DAX", "its first element is adag")
	}
	if r.root {
		return r.fault("adag", "is there twice", "a file has one workflow")
	}
	r.root = true
	if v := attribute(e, "version"); v != "" && !strings.HasPrefix(v, "2.") && !strings.HasPrefix(v, "3.") {
		return r.fault("adag/@version", "DAX "+fault.Quote(v)+" is not supported", "2 and 3 are")
	}
	job := r.importer.Job
	// All published workflows have the name test; the name of the file is more useful.
	if name := attribute(e, "name"); name != "" && name != "test" {
		job.Name = jobtext.ToName(name, job.Name)
	}
	return r.elements(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "job":
			return r.readJob(e)
		case "child":
			return r.readChild(e)
		case "file":
			return r.readFile(e)
		case "dax", "dag":
			return r.fault(
				"adag/"+e.Name.Local,
				"a workflow within a workflow is not supported",
				"replace it with its jobs",
			)
		}
		return r.skip() // executable, transformation, metadata, invoke
	})
}

// readFile reads an entry of the replica catalogue in the file: the URL of a file.
func (r *reader) readFile(e xml.StartElement) error {
	name, pos := daxFile(e), r.pos
	return r.elements(func(e xml.StartElement) error {
		if e.Name.Local == "pfn" {
			// URLs that the agent cannot read are ignored.
			if url := attribute(e, "url"); strings.Contains(url, "://") && jobtext.CheckURI(url) == nil {
				if err := jobtext.CheckText(name); err != nil {
					return fault.At(pos, fault.Within("adag/file/@name", err))
				}
				r.importer.Flows.File(name).URL = url
			}
		}
		return r.skip()
	})
}

func (r *reader) readJob(e xml.StartElement) error {
	path := fmt.Sprintf("adag/job[%d]", len(r.importer.Job.Tasks)+1) // XPath counts from 1
	id, pos := attribute(e, "id"), r.pos
	if id == "" {
		return r.fault(path+"/@id", "is missing", "")
	}
	i, err := r.importer.AddTask(id, attribute(e, "name"), pos, path)
	if err != nil {
		return fault.Within(path+"/@id", err)
	}
	var all fault.Faults
	if s := attribute(e, "runtime"); s != "" {
		all.Add(fault.At(pos, fault.Within(path+"/@runtime", r.setRuntime(i, s))))
	}
	uses := 0
	all.Add(r.elements(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "uses":
			uses++
			path := fmt.Sprintf("%s/uses[%d]", path, uses)
			if err := r.readUses(i, e, path); err != nil {
				return fault.At(r.pos, fault.Within(path, err))
			}
		case "stdin", "stdout", "stderr":
			if err := r.importer.Flows.Use(i, daxFile(e), e.Name.Local != "stdin"); err != nil {
				return fault.At(r.pos, fault.Within(path+"/"+e.Name.Local, err))
			}
		case "profile":
			return fault.Within(path, r.readProfile(i, e))
		}
		return r.skip() // argument, metadata, invoke
	}))
	return all.Err()
}

func (r *reader) setRuntime(task int, s string) error {
	seconds, err := jobtext.ParseNumber(strings.TrimSpace(s))
	if err != nil {
		return fault.New(fault.Quote(s)+" is not a number of seconds", "")
	}
	return r.importer.SetRecorded(task, seconds)
}

// readUses reads a file of a job from the element at path.
func (r *reader) readUses(task int, e xml.StartElement, path string) error {
	if attribute(e, "type") == "executable" || attribute(e, "executable") == "true" {
		return nil // the program, which a stand-in does not need
	}
	name := daxFile(e)
	if name == "" {
		return fault.New("names no file", "DAX 3 has name, DAX 2 file")
	}
	if s := attribute(e, "size"); s != "" {
		bytes, err := jobtext.ParseNumber(strings.TrimSpace(s))
		if err != nil {
			return fault.Within("/@size", fault.New(fault.Quote(s)+" is not a number of bytes", ""))
		}
		size, err := recorded.Size(max(bytes, 0))
		if err != nil {
			return fault.Within("/@size", err)
		}
		if bytes < 0 { // sizes overflowed in the generators of published workflows
			r.importer.Job.Warn(r.pos, path+"/@size", "the negative size "+fault.Quote(s)+" is treated as unknown")
		}
		r.importer.Flows.SetSize(name, size)
	}
	flows := r.importer.Flows
	switch link := attribute(e, "link"); link {
	case "input":
		return flows.Use(task, name, false)
	case "output":
		return flows.Use(task, name, true)
	case "inout":
		if err := flows.Use(task, name, false); err != nil {
			return err
		}
		return flows.Use(task, name, true)
	case "", "none", "checkpoint":
		return nil
	default:
		return fault.Within(
			"/@link",
			fault.New(
				"unknown link "+fault.Quote(link),
				fault.OneOf(link, []string{"input", "output", "inout", "none", "checkpoint"}),
			),
		)
	}
}

// readProfile reads requirements of a job from profiles of pegasus and env.
func (r *reader) readProfile(task int, e xml.StartElement) error {
	namespace, key, pos := attribute(e, "namespace"), attribute(e, "key"), r.pos
	value, err := r.text()
	if err != nil {
		return err
	}
	t := &r.importer.Job.Tasks[task]
	switch {
	case namespace == "env":
		err = jobtext.CheckEnvName(key)
		if err == nil {
			t.Env = dag.MergeEnv(t.Env, map[string]string{key: value})
		}
	case namespace == "pegasus" && key == "runtime":
		err = r.setRuntime(task, value)
	case namespace == "pegasus" && key == "cores":
		t.Resources[0].CPUs, err = atLeast(value, 1, jobtext.MaxCPUs)
	case namespace == "pegasus" && key == "memory": // in MB
		t.Resources[0].Memory, err = atLeast(value, 1./1024, jobtext.MaxMemoryGiB)
	case namespace == "pegasus" && key == "nodes":
		t.Nodes, err = jobtext.ParseInt(value, 1, jobtext.MaxNodes)
	}
	return fault.At(pos, fault.Within(fmt.Sprintf("/profile[@namespace=%q][@key=%q]", namespace, key), err))
}

// atLeast reads a number, in multiples of unit, as a minimum.
func atLeast(s string, unit, most float64) (dag.Range, error) {
	v, err := jobtext.ParseNumber(s)
	if err != nil {
		return dag.Range{}, fault.New(fault.Quote(s)+" is not a number", "")
	}
	r := dag.Range{Min: v * unit}
	return r, r.Check(most)
}

func (r *reader) readChild(e xml.StartElement) error {
	r.children++
	path := fmt.Sprintf("adag/child[%d]", r.children)
	ref := attribute(e, "ref")
	child, ok := r.importer.ByID[ref]
	if !ok {
		return r.fault(
			path+"/@ref",
			"there is no job "+fault.Quote(ref)+" above",
			fault.DidYouMean(ref, slices.Sorted(maps.Keys(r.importer.ByID))),
		)
	}
	parents := 0
	return r.elements(func(e xml.StartElement) error {
		if e.Name.Local != "parent" {
			return r.skip()
		}
		parents++
		task := int32(child) //nolint:gosec // below dag.MaxTasks
		ref := attribute(e, "ref")
		err := r.importer.AddDependency(recorded.Dependency{Task: task, Index: r.children, Ref: ref, Pos: r.pos})
		if err != nil {
			return fault.Within(fmt.Sprintf("%s/parent[%d]", path, parents), err)
		}
		return r.skip()
	})
}
