package dag

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// daxReader reads Pegasus DAX as a stream of elements. Of the schemas dax-2.1 and dax-3.6 it takes
// jobs with their files, profiles and dependencies; the runtime and size attributes are those of the
// published synthetic workflows. Catalogues, metadata and notifications are passed over.
type daxReader struct {
	file     string
	dec      *xml.Decoder
	importer *importer
	pos      position // of the last token
	children int32    // child elements so far
	root     bool     // whether there was one
}

// daxMaxAttributes bounds the attributes of one element, which are compared with each other.
const daxMaxAttributes = 100

func parseDAX(name string, data []byte) (*Job, error) {
	r := &daxReader{file: name, dec: xml.NewDecoder(bytes.NewReader(data))}
	r.importer = newImporter(name, DAX, func(_ string, d dependency) string {
		return fmt.Sprintf("adag/child[%d]/parent/@ref", d.index)
	})
	for {
		t, err := r.token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if e, ok := t.(xml.StartElement); ok {
			if err := r.readRoot(e); err != nil {
				return nil, err
			}
		}
	}
	if !r.root {
		return nil, fault("there is no adag element", "")
	}
	if len(r.importer.job.Tasks) == 0 {
		return nil, at(position{1, 1}, within("adag", fault("has no job", "")))
	}
	return r.importer.finish()
}

// token reads a token and notes where it begins. DOCTYPE, and with it every way to define entities,
// is refused.
func (r *daxReader) token() (xml.Token, error) {
	line, column := r.dec.InputPos()
	r.pos = position{line: int32(line), column: int32(column)} //nolint:gosec // at most MaxFileBytes
	t, err := r.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, r.syntax(err)
	}
	if e, ok := t.(xml.StartElement); ok {
		return e, r.checkAttributes(e)
	}
	if _, ok := t.(xml.Directive); ok {
		return nil, r.fault("", "DOCTYPE and other directives are not read", "remove it: a DAX needs none")
	}
	return t, nil
}

func (r *daxReader) syntax(err error) error {
	e := &Error{Line: int(r.pos.line), Column: int(r.pos.column), Reason: "is not XML: " + strings.TrimPrefix(err.Error(), "xml: "), cause: err}
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		e.Line, e.Column, e.Reason = syntax.Line, 0, "is not XML: "+syntax.Msg
	}
	if strings.HasSuffix(e.Reason, "unexpected EOF") {
		e.Reason = "is not XML: it ends too early"
	}
	if strings.Contains(err.Error(), "CharsetReader") {
		e.Reason, e.Hint = "is in an encoding that is not read", "save it as UTF-8"
	}
	return e
}

func (r *daxReader) checkAttributes(e xml.StartElement) error {
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

// fault makes an error at the last token.
func (r *daxReader) fault(field, reason, hint string) error {
	return at(r.pos, within(field, fault(reason, hint)))
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// elements calls each for every element inside the current one, until its end.
func (r *daxReader) elements(each func(xml.StartElement) error) error {
	for {
		t, err := r.token()
		if errors.Is(err, io.EOF) {
			return r.syntax(io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if err := each(t); err != nil {
				return err
			}
		case xml.EndElement:
			return nil
		}
	}
}

// skip passes over the rest of the current element.
func (r *daxReader) skip() error {
	for depth := 1; depth > 0; {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch t.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return at(r.pos, overLimit(fmt.Sprintf("is nested more than %d deep", maxDepth), ""))
			}
		case xml.EndElement:
			depth--
		}
	}
	return nil
}

// text reads the text of the current element, of at most MaxTextBytes.
func (r *daxReader) text() (string, error) {
	var b strings.Builder
	for {
		t, err := r.token()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.CharData:
			if b.Len()+len(t) > MaxTextBytes {
				return "", at(r.pos, overLimit(fmt.Sprintf("has more than %d bytes", MaxTextBytes), ""))
			}
			b.Write(t)
		case xml.StartElement: // a file named within the text
			b.WriteString(daxFile(t))
			if err := r.skip(); err != nil {
				return "", err
			}
		case xml.EndElement:
			return strings.TrimSpace(b.String()), nil
		}
	}
}

// daxFile is the file that an element names: file is DAX 2, name is DAX 3.
func daxFile(e xml.StartElement) string {
	if f := attribute(e, "file"); f != "" {
		return f
	}
	return attribute(e, "name")
}

func (r *daxReader) readRoot(e xml.StartElement) error {
	if e.Name.Local != "adag" {
		return r.fault(e.Name.Local, "is not a DAX", "its first element is adag")
	}
	if r.root {
		return r.fault("adag", "there are two of it", "a file holds one workflow")
	}
	r.root = true
	if v := attribute(e, "version"); v != "" && !strings.HasPrefix(v, "2.") && !strings.HasPrefix(v, "3.") {
		return r.fault("adag/@version", "DAX "+quote(v)+" is not read", "2 and 3 are")
	}
	job := r.importer.job
	// The published workflows are all called test: a file's name says more.
	if name := attribute(e, "name"); name != "" && name != "test" {
		job.Name = toName(name, job.Name)
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
			return r.fault("adag/"+e.Name.Local, "a workflow within a workflow is not read", "put its jobs in its place")
		}
		return r.skip() // executable, transformation, metadata, invoke
	})
}

// readFile reads an entry of the replica catalogue in the file: where a file is.
func (r *daxReader) readFile(e xml.StartElement) error {
	name, pos := daxFile(e), r.pos
	return r.elements(func(e xml.StartElement) error {
		if e.Name.Local == "pfn" {
			// Places that cannot be read from are no use to a plan.
			if url := attribute(e, "url"); strings.Contains(url, "://") && checkURI(url) == nil {
				if err := checkText(name); err != nil {
					return at(pos, within("adag/file/@name", err))
				}
				r.importer.flows.file(name).url = url
			}
		}
		return r.skip()
	})
}

func (r *daxReader) readJob(e xml.StartElement) error {
	path := fmt.Sprintf("adag/job[%d]", len(r.importer.job.Tasks)+1) // as XPath counts
	id, pos := attribute(e, "id"), r.pos
	if id == "" {
		return r.fault(path+"/@id", "is missing", "")
	}
	i, err := r.importer.addTask(id, attribute(e, "name"), pos, path)
	if err != nil {
		return within(path+"/@id", err)
	}
	if s := attribute(e, "runtime"); s != "" {
		if err := r.setRuntime(i, s); err != nil {
			return at(pos, within(path+"/@runtime", err))
		}
	}
	uses := 0
	return r.elements(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "uses":
			uses++
			if err := r.readUses(i, e); err != nil {
				return at(r.pos, within(fmt.Sprintf("%s/uses[%d]", path, uses), err))
			}
		case "stdin", "stdout", "stderr":
			if err := r.importer.flows.use(i, daxFile(e), e.Name.Local != "stdin"); err != nil {
				return at(r.pos, within(path+"/"+e.Name.Local, err))
			}
		case "profile":
			return within(path, r.readProfile(i, e))
		}
		return r.skip() // argument, metadata, invoke
	})
}

func (r *daxReader) setRuntime(task int, s string) error {
	seconds, err := parseNumber(strings.TrimSpace(s))
	if err != nil {
		return fault(quote(s)+" is not a number of seconds", "")
	}
	return r.importer.setRecorded(task, seconds)
}

// readUses reads a file of a job.
func (r *daxReader) readUses(task int, e xml.StartElement) error {
	if attribute(e, "type") == "executable" || attribute(e, "executable") == "true" {
		return nil // the program, which a stand-in does not need
	}
	name := daxFile(e)
	if name == "" {
		return fault("names no file", "DAX 3 has name, DAX 2 file")
	}
	if s := attribute(e, "size"); s != "" {
		bytes, err := parseNumber(strings.TrimSpace(s))
		if err != nil {
			return within("/@size", fault(quote(s)+" is not a number of bytes", ""))
		}
		size, err := bytesToSize(bytes)
		if err != nil {
			return within("/@size", err)
		}
		r.importer.flows.setSize(name, size)
	}
	flows := r.importer.flows
	switch link := attribute(e, "link"); link {
	case "input":
		return flows.use(task, name, false)
	case "output":
		return flows.use(task, name, true)
	case "inout":
		if err := flows.use(task, name, false); err != nil {
			return err
		}
		return flows.use(task, name, true)
	case "", "none", "checkpoint":
		return nil
	default:
		return within("/@link", fault("unknown link "+quote(link), oneOf(link, []string{"input", "output", "inout", "none", "checkpoint"})))
	}
}

// readProfile takes what pegasus and env profiles say of a job's needs.
func (r *daxReader) readProfile(task int, e xml.StartElement) error {
	namespace, key, pos := attribute(e, "namespace"), attribute(e, "key"), r.pos
	value, err := r.text()
	if err != nil {
		return err
	}
	t := &r.importer.job.Tasks[task]
	switch {
	case namespace == "env":
		err = checkEnvName(key)
		if err == nil {
			t.Env = overlay(t.Env, map[string]string{key: value})
		}
	case namespace == "pegasus" && key == "runtime":
		err = r.setRuntime(task, value)
	case namespace == "pegasus" && key == "cores":
		t.Resources[0].CPUs, err = atLeast(value, 1, MaxCPUs)
	case namespace == "pegasus" && key == "memory": // in MB
		t.Resources[0].Memory, err = atLeast(value, 1./1024, MaxMemoryGiB)
	case namespace == "pegasus" && key == "nodes":
		t.Nodes, err = parseInt(value, 1, MaxNodes)
	}
	return at(pos, within(fmt.Sprintf("/profile[@namespace=%q][@key=%q]", namespace, key), err))
}

// atLeast reads a number, in units of unit, as a lower bound.
func atLeast(s string, unit, most float64) (Range, error) {
	v, err := parseNumber(s)
	if err != nil {
		return Range{}, fault(quote(s)+" is not a number", "")
	}
	r := Range{Min: v * unit}
	return r, checkRange(r, most)
}

func (r *daxReader) readChild(e xml.StartElement) error {
	r.children++
	path := fmt.Sprintf("adag/child[%d]", r.children)
	ref := attribute(e, "ref")
	child, ok := r.importer.byID[ref]
	if !ok {
		return r.fault(path+"/@ref", "there is no job "+quote(ref)+" above", didYouMean(ref, sortedKeys(r.importer.byID)))
	}
	parents := 0
	return r.elements(func(e xml.StartElement) error {
		if e.Name.Local != "parent" {
			return r.skip()
		}
		parents++
		err := r.importer.depend(dependency{task: int32(child), index: r.children, ref: attribute(e, "ref"), pos: r.pos}) //nolint:gosec // below MaxTasks
		if err != nil {
			return within(fmt.Sprintf("%s/parent[%d]", path, parents), err)
		}
		return r.skip()
	})
}
