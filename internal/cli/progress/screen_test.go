package progress

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// glass is a simulated terminal that understands what a screen writes.
type glass struct {
	rows      []string
	row       int
	cells     int
	hidden    bool
	echo      bool
	away      bool
	unknown   []string
	syncDepth int
}

func (g *glass) foreground() bool { return !g.away }
func (g *glass) quiet(on bool)    { g.echo = !on }
func (g *glass) size() (int, int) { return g.cells, 24 }

func (g *glass) Write(b []byte) (int, error) {
	n := len(b)
	var state byte
	for len(b) > 0 {
		seq, width, used, next := ansi.DecodeSequence(b, state, nil)
		state, b = next, b[used:]
		g.put(string(seq), width)
	}
	return n, nil
}

func (g *glass) put(seq string, width int) {
	for len(g.rows) <= g.row {
		g.rows = append(g.rows, "")
	}
	switch {
	case width > 0:
		g.rows[g.row] += seq
	case seq == "\r":
	case seq == "\n":
		g.row++
	case seq == ansi.EraseEntireLine:
		g.rows[g.row] = ""
	case seq == ansi.EraseScreenBelow:
		g.rows = g.rows[:g.row]
	case seq == ansi.HideCursor, seq == ansi.ShowCursor:
		g.hidden = seq == ansi.HideCursor
	case seq == ansi.SetModeSynchronizedOutput:
		g.syncDepth++
	case seq == ansi.ResetModeSynchronizedOutput:
		g.syncDepth--
	case strings.HasPrefix(seq, "\x1b[") && strings.HasSuffix(seq, "A"):
		up, err := strconv.Atoi(cmpOr(seq[2:len(seq)-1], "1"))
		if err != nil || up > g.row {
			g.unknown = append(g.unknown, seq)
			return
		}
		g.row -= up
	default:
		g.unknown = append(g.unknown, seq)
	}
}

// shown returns what a user sees.
func (g *glass) shown() string { return strings.TrimRight(strings.Join(g.rows, "\n"), "\n") }

func cmpOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func TestScreenReplacesPicture(t *testing.T) {
	g := &glass{cells: 40, echo: true, rows: []string{"$ tradewind run"}, row: 1}
	s := &screen{out: g, tty: g}
	for _, picture := range []string{"one\ntwo\nthree", "1\n2\n3\n4\n5", "only", "a\n\nb"} {
		if !s.enter() {
			t.Fatal("the terminal was not taken")
		}
		s.paint(picture, 40)
		if got, want := g.shown(), "$ tradewind run\n"+picture; got != want {
			t.Errorf("shows:\n%s\nwant:\n%s", got, want)
		}
		if !g.hidden || g.echo || g.syncDepth != 0 {
			t.Errorf("hidden %v, echo %v, depth %d", g.hidden, g.echo, g.syncDepth)
		}
	}
	s.leave()
	s.leave()
	if g.hidden || !g.echo || len(g.unknown) > 0 {
		t.Errorf("left with hidden %v, echo %v; unknown %q", g.hidden, g.echo, g.unknown)
	}
}

func TestScreenPausesInBackground(t *testing.T) {
	g := &glass{cells: 40}
	s := &screen{out: g, tty: g}
	s.enter()
	s.paint("before", 40)
	g.away = true
	if s.enter() {
		t.Fatal("the terminal of another program was taken")
	}
	g.put("$ other", 7)
	g.put("\n", 0)
	g.away = false
	s.enter()
	s.paint("after", 40)
	if got := g.shown(); got != "before\n$ other\nafter" {
		t.Errorf("shows:\n%s", got)
	}
}

func TestScreenErasesWrappedPicture(t *testing.T) {
	s := &screen{painted: []string{strings.Repeat("x", 70), "", "short"}}
	if got := s.rows(40); got != 4 {
		t.Errorf("the picture takes %d rows in 40 cells, want 4", got)
	}
}

// A Live on something that is not a terminal must accept all updates, paint nothing, and end.
func TestLiveEndsWithoutTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l := NewLive(LiveOptions{Out: w, Scale: 1, Glyphs: Unicode(), Now: func() time.Time { return wall }})
	for _, u := range story()[:7] {
		l.Update(u, wall)
	}
	l.Note("note")
	l.Close()
	l.Close()
	l.Update(story()[6], wall) // after the end: ignored
	if got := l.Job().ID; got != "train-infer-abc123" {
		t.Errorf("job is %q", got)
	}
	_ = w.Close()
	var out bytes.Buffer
	_, _ = out.ReadFrom(r)
	if out.Len() > 0 {
		t.Errorf("painted %q", out.String())
	}
}

func TestLivePaintsWholeJob(t *testing.T) {
	g := &glass{cells: 100}
	l := &Live{
		screen: screen{out: g, tty: g}, now: func() time.Time { return wall }, told: make(chan func(*picture)), closed: make(chan struct{}), done: make(chan struct{}),
		pic: picture{View: View{Job: NewJob(1), Hint: "hint", Glyphs: Unicode()}},
	}
	go func() {
		defer close(l.done)
		l.run(nil)
	}()
	for _, u := range story()[:7] {
		l.Update(u, wall)
	}
	l.Close()
	shown := g.shown()
	for _, want := range []string{"train-infer-abc123  succeeded", "2/2 tasks  100%", "train: preempted on gcp/", "42%"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in the last picture:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "hint") || g.hidden || len(g.unknown) > 0 || text.Width(g.rows[0]) > 100 {
		t.Errorf("left behind: hidden %v, unknown %q\n%s", g.hidden, g.unknown, shown)
	}
}

// TestTransferLeaveRestoresTerminal: even if packing continues until the process ends.
func TestTransferLeaveRestoresTerminal(t *testing.T) {
	g, now := &glass{cells: 80, echo: true}, time.Unix(0, 0)
	bar := NewTransfer(nil, g, text.Style{}, ASCII(), func() time.Time { now = now.Add(time.Minute); return now })
	bar.screen = &screen{out: g, tty: g}
	bar.Begin("packing code")
	bar.Add(1, 2)
	if !g.hidden || g.echo {
		t.Fatalf("it paints on a terminal with its cursor (hidden: %v) and echo (%v)", g.hidden, g.echo)
	}
	bar.Leave()
	bar.Add(1, 2)
	if g.hidden || !g.echo {
		t.Errorf("it was left: the cursor is hidden (%v), or what is typed not shown (echo: %v)", g.hidden, g.echo)
	}
}
