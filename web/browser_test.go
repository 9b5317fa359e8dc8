package web_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/web"
)

// deployed is a World with the dashboard.
func deployed(t *testing.T) *apitest.World {
	t.Helper()
	h, err := web.Handler()
	if err != nil {
		t.Fatal(err)
	}
	return apitest.New(t, func(c *api.Config) { c.Dashboard = h })
}

// browser is a tab that records all errors.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string

	mu      sync.Mutex
	wrongs  []string
	foreign []string
	allowed []string // parts of console messages that are expected
}

// chromium is one browser for all tests, or nil if none is installed. Every test has a separate tab and separate cookies.
var chromium = sync.OnceValues(func() (context.Context, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
		alloc, _ := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, _ := chromedp.NewContext(alloc)
		return ctx, chromedp.Do(ctx) // starts it
	}
	return nil, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if ctx, err := chromium(); ctx != nil && err == nil {
		if err := chromedp.Cancel(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "closing the browser:", err)
		}
	}
	os.Exit(code)
}

func open(t *testing.T, w *apitest.World) *browser {
	t.Helper()
	parent, err := chromium()
	switch {
	case err != nil:
		t.Fatal(err)
	case parent == nil:
		t.Skip("neither chromium nor chrome is in PATH: the dashboard is not tested in a browser")
	}
	ctx, stop := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // that of a hang, on however busy a machine
	t.Cleanup(func() { cancel(); stop() })
	b := &browser{t: t, ctx: ctx, url: w.Server.URL}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	// Policy violations are also events of the page, with more details than in the console.
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener('securitypolicyviolation', (e) => console.error('policy', e.violatedDirective, e.blockedURI, e.sample))`,
	})
	b.as(1280, 900, "light")
	t.Cleanup(b.check)
	return b
}

// call sends a protocol command.
func call[P, R any](b *browser, cmd cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, cmd, params); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) listen(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		said := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			said += " " + e.ExceptionDetails.Exception.Description
		}
		b.wrongs = append(b.wrongs, said)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var said []string
			for _, a := range e.Args {
				said = append(said, string(a.Value))
			}
			b.wrongs = append(b.wrongs, strings.Join(said, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.wrongs = append(b.wrongs, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.url) {
			b.foreign = append(b.foreign, e.Request.URL)
		}
	}
}

// check fails the test if there were errors in the page.
func (b *browser) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for _, w := range b.wrongs {
		for _, a := range b.allowed {
			if strings.Contains(w, a) {
				continue next
			}
		}
		b.t.Errorf("the page's console says: %s", w)
	}
	for _, f := range b.foreign {
		b.t.Errorf("the page asked for %s", f)
	}
}

func (b *browser) run(steps ...chromedp.Action[chromedp.Void]) *browser {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
	return b
}

// click clicks the first element that matches a selector.
func (b *browser) click(selector string) *browser {
	b.t.Helper()
	return b.run(chromedp.Click(chromedp.CSS(selector)))
}

// visit signs in and opens a page.
func (b *browser) visit(hash string) *browser {
	b.t.Helper()
	b.run(chromedp.Navigate(b.url + "/?token=" + apitest.Token)).until(`localStorage.getItem('tradewind-session') !== null`)
	return b.run(chromedp.Navigate(b.url + "/" + hash))
}

// eval returns the value of an expression, or of its promise.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for a condition to hold in the page. The page itself waits, so nothing is polled from outside.
func (b *browser) until(condition string) *browser {
	b.t.Helper()
	wait := fmt.Sprintf(`new Promise((done) => { const look = () => ((() => { try { return %s } catch { return false } })() ? done(true) : setTimeout(look, 20)); look(); })`, condition)
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute) // as above
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatalf("waiting for %s: %v\nthe page says: %s", condition, err, eval[string](b, `document.body.innerText.slice(0, 1500)`))
	}
	return b
}

// focus focuses an element, found and focused in one step of the page: with an ID from an earlier step,
// the element might have been redrawn meanwhile.
func (b *browser) focus(selector string) *browser {
	b.t.Helper()
	return b.until(fmt.Sprintf(`((e) => { e.focus(); return document.activeElement === e })(document.querySelector(%q))`, selector))
}

// seen waits until an element matches a selector, gone until none does, and counted until n elements do.
func (b *browser) seen(selector string) *browser {
	b.t.Helper()
	return b.until(find(selector) + ".length > 0")
}
func (b *browser) gone(selector string) *browser { b.t.Helper(); return b.counted(selector, 0) }
func (b *browser) counted(selector string, n int) *browser {
	b.t.Helper()
	return b.until(fmt.Sprintf("%s.length === %d", find(selector), n))
}

func find(selector string) string { return fmt.Sprintf("document.querySelectorAll(%q)", selector) }

// says waits until the page contains a text, toasts until a toast contains it.
func (b *browser) says(text string) *browser {
	b.t.Helper()
	return b.until(fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", text))
}

func (b *browser) toasts(text string) *browser {
	b.t.Helper()
	return b.until(fmt.Sprintf("document.querySelector('.toast').innerText.includes(%q)", text))
}

// anew reloads a page.
func (b *browser) anew(hash string) *browser {
	b.t.Helper()
	return b.run(chromedp.Navigate(b.url+"/"+hash), chromedp.Reload())
}

// as changes the screen size and colour scheme.
func (b *browser) as(width, height int64, scheme string) *browser {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	return b
}

// drag presses the mouse in the lower left corner of an element and moves it.
func (b *browser) drag(selector string, dx, dy float64) {
	b.t.Helper()
	at := eval[struct{ X, Y float64 }](b, `(() => { const r = document.querySelector('`+selector+`').getBoundingClientRect(); return { X: r.left + 8, Y: r.bottom - 8 }; })()`)
	b.run(chromedp.DragAndDropXY(at.X, at.Y, at.X+dx, at.Y-dy, 4))
}
