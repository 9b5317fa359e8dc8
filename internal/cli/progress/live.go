package progress

import (
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// frameEvery is the interval of the clock and animation of a view.
const frameEvery = 125 * time.Millisecond

// LiveOptions configure a Live.
type LiveOptions struct {
	Out    *os.File // a terminal
	Scale  float64
	Hint   string
	Color  bool
	Glyphs Glyphs
	Now    func() time.Time
}

// Live paints a job on a terminal, below existing output, until it is closed. The last picture stays.
//
// It reads no keys, so Ctrl-C and Ctrl-Z remain signals. While another program has the terminal, it paints nothing.
type Live struct {
	screen screen
	now    func() time.Time
	told   chan func(*picture)
	closed chan struct{}
	done   chan struct{}
	once   sync.Once
	pic    picture
}

// picture is the painted state.
type picture struct {
	View
	closing bool
}

// NewLive starts painting.
func NewLive(o LiveOptions) *Live {
	l := &Live{
		screen: screen{out: o.Out, tty: tty{o.Out}}, now: o.Now, told: make(chan func(*picture)),
		closed: make(chan struct{}), done: make(chan struct{}),
		pic: picture{View: View{Job: NewJob(o.Scale), Hint: o.Hint, Style: text.NewStyle(o.Color), Glyphs: o.Glyphs}},
	}
	stop := make(chan os.Signal, 1)
	watchSuspend(stop)
	go func() {
		defer close(l.done)
		defer signal.Stop(stop)
		l.run(stop)
	}()
	return l
}

func (l *Live) run(stop <-chan os.Signal) {
	frames := time.NewTicker(frameEvery)
	defer frames.Stop()
	for !l.pic.closing {
		l.paint()
		select {
		case change := <-l.told:
			change(&l.pic)
		case <-frames.C:
			l.pic.Frame++
		case <-stop: // Ctrl-Z
			l.screen.leave()
			suspend()
		case <-l.closed:
			l.pic.closing, l.pic.Note, l.pic.Hint = true, "", ""
		}
	}
	l.paint()
	l.screen.leave()
}

func (l *Live) paint() {
	if !l.screen.enter() {
		return
	}
	width, height := l.screen.tty.size()
	l.screen.paint(l.pic.Render(l.now(), width, height), width)
}

// change changes the picture, unless painting has ended.
func (l *Live) change(change func(*picture)) {
	select {
	case l.told <- change:
	case <-l.done:
	}
}

// Job returns the known state of the job. Call it only after Close.
func (l *Live) Job() *Job { return l.pic.Job }

// Update shows an update.
func (l *Live) Update(u apitypes.JobUpdate, wall time.Time) {
	l.change(func(p *picture) { p.happened(p.Job.Apply(u, wall)) })
}

// Note shows a message of the program itself.
func (l *Live) Note(note string) { l.change(func(p *picture) { p.Note = note }) }

// Close paints a last time and restores the terminal.
func (l *Live) Close() {
	l.once.Do(func() { close(l.closed) })
	<-l.done
}

// maxRecent is the maximum number of notable events that a view shows.
const maxRecent = 50

// happened stores the notable events.
func (p *picture) happened(news []Event) {
	for _, h := range news {
		if !h.Notable {
			continue
		}
		if len(p.Recent) == maxRecent {
			p.Recent = p.Recent[1:]
			p.Missed++
		}
		p.Recent = append(p.Recent, h)
	}
}
