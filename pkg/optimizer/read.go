package optimizer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ReadModel reads one [Model] in its JSON form and validates it. It is strict:
// unknown, repeated and missing fields, trailing text and anything that
// [Model.Validate] refuses are a *[ModelError] that names the field;
// "deadlineHours", "budgetUSD" and "carbonCapKg" alone may be left out or null, a
// candidate's "kgCO2", "site" and "zone" and the lists "together" and "spread" may be left out, and a list may be null
// for empty. Memory is bounded by a small multiple of the text's size, itself at most
// [MaxModelBytes]. An error of r is returned wrapped.
func ReadModel(r io.Reader) (*Model, error) {
	limited := &io.LimitedReader{R: r, N: MaxModelBytes}
	p := &parser{dec: jsontext.NewDecoder(limited)}
	m, err := p.model()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		if limited.N <= 0 {
			return nil, modelErrorf("", "is larger than %d bytes", int64(MaxModelBytes))
		}
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// parser walks the tokens of a model. The decoder keeps the path to the value
// last read, which names the field in errors.
type parser struct {
	dec *jsontext.Decoder
}

func (p *parser) model() (*Model, error) {
	m := &Model{}
	err := p.object([]field{
		{"objective", true, func() error { return p.text((*string)(&m.Objective)) }},
		{"deadlineHours", false, func() error { return p.optional(&m.DeadlineHours) }},
		{"budgetUSD", false, func() error { return p.optional(&m.BudgetUSD) }},
		{"carbonCapKg", false, func() error { return p.optional(&m.CarbonCapKg) }},
		{"places", true, func() error { return p.places(m) }},
		{"usdPerGiB", true, func() error { return p.matrix(&m.USDPerGiB) }},
		{"hoursPerGiB", true, func() error { return p.matrix(&m.HoursPerGiB) }},
		{"tasks", true, func() error { return p.tasks(m) }},
		{"edges", true, func() error { return p.edges(m) }},
		{"together", false, func() error { return p.together(m) }},
		{"spread", false, func() error { return p.spread(m) }},
	})
	return m, err
}

func (p *parser) places(m *Model) error {
	m.Places = []string{}
	return p.list(MaxPlaces, func() error {
		var s string
		err := p.text(&s)
		m.Places = append(m.Places, s)
		return err
	})
}

func (p *parser) matrix(rows *[][]float64) error {
	*rows = [][]float64{}
	return p.list(MaxPlaces, func() error {
		var row []float64
		err := p.list(MaxPlaces, func() error {
			var x float64
			err := p.number(&x)
			row = append(row, x)
			return err
		})
		*rows = append(*rows, row)
		return err
	})
}

func (p *parser) tasks(m *Model) error {
	m.Tasks = []Task{}
	var t Task
	var c Candidate
	total := 0
	candidate := []field{
		{"id", true, func() error { return p.text(&c.ID) }},
		{"place", true, func() error { return p.index(&c.Place) }},
		{"usd", true, func() error { return p.number(&c.USD) }},
		{"hours", true, func() error { return p.number(&c.Hours) }},
		{"kgCO2", false, func() error { return p.number(&c.KgCO2) }},
		{"site", false, func() error { return p.text(&c.Site) }},
		{"zone", false, func() error { return p.text(&c.Zone) }},
	}
	task := []field{
		{"id", true, func() error { return p.text(&t.ID) }},
		{"candidates", true, func() error {
			t.Candidates = []Candidate{}
			return p.list(MaxCandidates-total, func() error {
				c = Candidate{}
				err := p.object(candidate)
				t.Candidates = append(t.Candidates, c)
				total++
				return err
			})
		}},
	}
	return p.list(MaxTasks, func() error {
		t = Task{}
		err := p.object(task)
		m.Tasks = append(m.Tasks, t)
		return err
	})
}

func (p *parser) edges(m *Model) error {
	m.Edges = []Edge{}
	var e Edge
	edge := []field{
		{"from", true, func() error { return p.text(&e.From) }},
		{"to", true, func() error { return p.text(&e.To) }},
		{"gib", true, func() error { return p.number(&e.GiB) }},
	}
	return p.list(MaxEdges, func() error {
		e = Edge{}
		err := p.object(edge)
		m.Edges = append(m.Edges, e)
		return err
	})
}

func (p *parser) together(m *Model) error {
	return p.list(MaxTasks, func() error {
		var group []string
		err := p.list(MaxTasks, func() error {
			var id string
			err := p.text(&id)
			group = append(group, id)
			return err
		})
		m.Together = append(m.Together, group)
		return err
	})
}

func (p *parser) spread(m *Model) error {
	var g Spread
	group := []field{
		{"tasks", true, func() error {
			return p.list(MaxTasks, func() error {
				var id string
				err := p.text(&id)
				g.Tasks = append(g.Tasks, id)
				return err
			})
		}},
		{"machines", false, func() error {
			return p.list(MaxTasks, func() error {
				var n int
				err := p.count(&n)
				g.Machines = append(g.Machines, n)
				return err
			})
		}},
		{"by", true, func() error { return p.text((*string)(&g.By)) }},
		{"most", true, func() error { return p.count(&g.Most) }},
	}
	return p.list(MaxTasks, func() error {
		g = Spread{}
		err := p.object(group)
		m.Spread = append(m.Spread, g)
		return err
	})
}

// field is one member of an object: its name, whether it must be there, and how
// its value is read.
type field struct {
	name     string
	required bool
	read     func() error
}

func (p *parser) object(fields []field) error {
	if err := p.open('{'); err != nil {
		return err
	}
	seen := 0
	for {
		tok, err := p.token()
		if err != nil {
			return err
		}
		if tok.Kind() == '}' {
			break
		}
		i := 0
		for name := tok.String(); i < len(fields) && fields[i].name != name; {
			i++
		}
		if i == len(fields) {
			return p.errorf("unknown field")
		}
		seen |= 1 << i
		if err := fields[i].read(); err != nil {
			return err
		}
	}
	for i, f := range fields {
		if f.required && seen&(1<<i) == 0 {
			return p.errorf("field %q is missing", f.name)
		}
	}
	return nil
}

// list reads an array, entry by entry. Null counts as an empty one, for so Go
// programs write it.
func (p *parser) list(most int, read func() error) error {
	if p.dec.PeekKind() == 'n' {
		_, err := p.token()
		return err
	}
	if err := p.open('['); err != nil {
		return err
	}
	for n := 0; p.dec.PeekKind() != ']'; n++ {
		if n == most {
			return p.errorf("too many entries, at most %d are allowed", most)
		}
		if err := read(); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

func (p *parser) open(want jsontext.Kind) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok.Kind() != want {
		return p.errorf("is %s, not %s", describeKind(tok.Kind()), describeKind(want))
	}
	return nil
}

func (p *parser) text(s *string) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok.Kind() != '"' {
		return p.errorf("is %s, not a string", describeKind(tok.Kind()))
	}
	*s = tok.String()
	return nil
}

func (p *parser) number(x *float64) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok.Kind() != '0' {
		return p.errorf("is %s, not a number", describeKind(tok.Kind()))
	}
	*x = tok.Float()
	if why := badNumber(*x); why != "" {
		return p.errorf("%s", why)
	}
	return nil
}

func (p *parser) index(i *int) error {
	var x float64
	if err := p.number(&x); err != nil {
		return err
	}
	if x != math.Trunc(x) || x >= MaxPlaces {
		return p.errorf("%g is not an index into the places", x)
	}
	*i = int(x)
	return nil
}

// count reads a whole number, of machines.
func (p *parser) count(n *int) error {
	var x float64
	if err := p.number(&x); err != nil {
		return err
	}
	if x != math.Trunc(x) || x > MaxTasks {
		return p.errorf("%g is not a number of machines", x)
	}
	*n = int(x)
	return nil
}

func (p *parser) optional(x **float64) error {
	if p.dec.PeekKind() == 'n' {
		_, err := p.token()
		return err
	}
	*x = new(float64)
	return p.number(*x)
}

// end makes sure that nothing follows the model.
func (p *parser) end() error {
	switch _, err := p.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return modelErrorf("", "is followed by more text")
	default:
		return p.failed(err)
	}
}

func (p *parser) token() (jsontext.Token, error) {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return tok, p.failed(err)
	}
	return tok, nil
}

// failed turns a decoder's error into one that names the field; errors of the
// underlying reader pass through.
func (p *parser) failed(err error) error {
	if errors.Is(err, io.EOF) {
		return modelErrorf("", "is empty or ends early")
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("read model: %w", err)
	}
	reason := "is not valid JSON"
	if syntax.Err != nil {
		reason = clip(syntax.Err.Error())
	}
	return &ModelError{
		Field:  fieldPath(syntax.JSONPointer),
		Reason: fmt.Sprintf("%s at byte %d", reason, syntax.ByteOffset),
		err:    err,
	}
}

func (p *parser) errorf(format string, args ...any) error {
	return modelErrorf(fieldPath(p.dec.StackPointer()), format, args...)
}

// fieldPath writes a JSON pointer the way Go and most people name a field:
// tasks[3].candidates[0].usd.
func fieldPath(ptr jsontext.Pointer) string {
	var b strings.Builder
	for seg := range ptr.Tokens() {
		if seg != "" && strings.Trim(seg, "0123456789") == "" {
			b.WriteString("[" + clip(seg) + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(clip(seg))
	}
	return b.String()
}

func describeKind(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "something else"
}
