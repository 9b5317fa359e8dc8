package desk_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/internal/mailbox"
	"github.com/tradewind-broker/tradewind/internal/mailbox/desk"
	"github.com/tradewind-broker/tradewind/internal/mailbox/mailboxtest"
)

const folder = "s3://bucket/mail"

// ledger is a broker that counts numbered reports. Like in the real broker, a repeated report changes nothing.
type ledger struct {
	mu      sync.Mutex
	counted map[string]bool
	calls   int
	order   int           // number of the newest command
	news    chan struct{} // closed and replaced at each command
	ended   bool
}

func newLedger() *ledger { return &ledger{counted: map[string]bool{}, news: make(chan struct{})} }

// give issues a new command, which replaces the previous one.
func (l *ledger) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order++
	close(l.news)
	l.news = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	switch {
	case l.ended:
		w.WriteHeader(http.StatusGone)
	case r.URL.Path == "/order":
		news, seen := l.news, r.URL.Query().Get("seen")
		if seen == fmt.Sprint(l.order) {
			l.mu.Unlock()
			select {
			case <-news:
			case <-time.After(50 * time.Second):
			case <-r.Context().Done():
			}
			l.mu.Lock()
		}
		_, _ = fmt.Fprint(w, l.order)
	default:
		l.counted[r.URL.Path] = true
	}
}

func (l *ledger) has(report string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counted[report]
}

// world is a bucket with one mailbox of two machines. Their broker can be killed and started again.
type world struct {
	t      *testing.T
	bucket *mailboxtest.Bucket
	ledger *ledger
	open   map[string]bool
	desk   *desk.Desk
	kill   func()
	boxes  mailbox.Address
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, bucket: mailboxtest.NewBucket(), ledger: newLedger(), open: map[string]bool{"box": true}}
	w.start()
	var err error
	if w.boxes, err = w.desk.OpenMailbox(t.Context(), "box", 2); err != nil {
		t.Fatal(err)
	}
	return w
}

// start starts a broker that has only the key of the previous one.
func (w *world) start() {
	w.desk = desk.New(desk.Config{
		Bucket:  desk.Bucket{Store: w.bucket, Client: &http.Client{Transport: w.bucket}, URI: folder},
		Handler: w.ledger, Key: key, Endpoint: endpoint, Away: 30 * time.Minute,
		Open: func(context.Context) (map[string]bool, error) {
			w.ledger.mu.Lock()
			defer w.ledger.mu.Unlock()
			return maps.Clone(w.open), nil
		},
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.desk.Run(ctx) }()
	w.kill = func() { cancel(); <-ended }
}

// agent is a client that repeats its calls, like the real agent.
func (w *world) agent(rank int) *agent {
	tr, err := mailbox.Connect(w.t.Context(), w.boxes, rank, mailbox.Options{Bucket: &http.Client{Transport: w.bucket}})
	if err != nil {
		w.t.Fatal(err)
	}
	return &agent{client: &http.Client{Transport: tr}, rank: rank}
}

type agent struct {
	client *http.Client
	rank   int
}

// call repeats a call until it is answered or patience ends.
func (a *agent) call(target string, try, patience time.Duration) (status int, body string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), try)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+target, strings.NewReader(target))
		resp, err := a.client.Do(req)
		if err != nil {
			cancel()
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		cancel()
		if err == nil {
			return resp.StatusCode, string(text)
		}
	}
	return 0, ""
}

// report sends numbered reports, one after the other, and returns the number of accepted ones.
func (a *agent) report(from, to int, patience time.Duration) (accepted int) {
	for n := from; n <= to; n++ {
		if status, _ := a.call(fmt.Sprintf("/report/%d/%d", a.rank, n), 30*time.Second, patience); status != http.StatusOK {
			return accepted
		}
		accepted++
	}
	return accepted
}

func (w *world) allCounted(rank, n int) {
	w.t.Helper()
	for i := 1; i <= n; i++ {
		if report := fmt.Sprintf("/report/%d/%d", rank, i); !w.ledger.has(report) {
			w.t.Errorf("%s is lost", report)
		}
	}
}

// empty ends the mailbox, and fails the test if anything is left in the bucket.
func (w *world) empty() {
	w.t.Helper()
	w.ledger.mu.Lock()
	w.ledger.ended = true
	delete(w.open, "box")
	w.ledger.mu.Unlock()
	time.Sleep(15 * time.Minute)
	if left := w.bucket.Names(); len(left) > 0 {
		w.t.Errorf("%d objects are left: %v", len(left), left[:min(len(left), 5)])
	}
}

func TestReportsSurviveFaultsOfTheBucket(t *testing.T) {
	for name, spoil := range map[string]func(b *mailboxtest.Bucket, rng *rand.Rand){
		"no faults": func(*mailboxtest.Bucket, *rand.Rand) {},
		"lost answers": func(b *mailboxtest.Bucket, rng *rand.Rand) {
			b.Lose(func(string, string) bool { return rng.IntN(3) == 0 })
		},
		"late and out of order": func(b *mailboxtest.Bucket, rng *rand.Rand) {
			b.Delay(func(string) time.Duration { return time.Duration(rng.IntN(20)) * time.Second })
		},
		"twice": func(b *mailboxtest.Bucket, _ *rand.Rand) {
			for range 20 {
				time.Sleep(10 * time.Second)
				b.Repeat()
			}
		},
		"refused for minutes": func(b *mailboxtest.Bucket, _ *rand.Rand) {
			for range 3 {
				time.Sleep(20 * time.Second)
				b.Refuse(true)
				time.Sleep(4 * time.Minute)
				b.Refuse(false)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
				const reports = 80
				var wg sync.WaitGroup
				for rank := range 2 {
					a := w.agent(rank)
					wg.Go(func() { a.report(1, reports, 30*time.Minute) })
				}
				spoil(w.bucket, rng)
				wg.Wait()
				for rank := range 2 {
					w.allCounted(rank, reports)
				}
				w.empty()
				w.kill()
			})
		})
	}
}

func TestReportsWaitForBrokerThatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, held := w.agent(0), w.agent(1)
		if n := a.report(1, 20, time.Minute); n != 20 {
			t.Fatalf("%d reports", n)
		}
		order := make(chan string, 1)
		go func() {
			text := "0"
			for text == "0" {
				_, text = held.call("/order?seen=0", 80*time.Second, 30*time.Minute)
			}
			order <- text
		}()
		time.Sleep(10 * time.Second)
		w.kill()
		before := len(w.bucket.Names())
		done := make(chan int, 1)
		go func() { done <- a.report(21, 60, 30*time.Minute) }()
		time.Sleep(10 * time.Minute)
		// The agents wait for answers to the messages that they have written. Repeated calls must not write more
		// messages.
		if more := len(w.bucket.Names()) - before; more > 1 {
			t.Errorf("%d more objects after ten minutes without a broker", more)
		}
		w.start()
		w.ledger.give()
		if n := <-done; n != 40 {
			t.Errorf("%d of 40 reports were accepted", n)
		}
		if text := <-order; text != "1" {
			t.Errorf("the order is %q", text)
		}
		w.allCounted(0, 60)
		w.empty()
		w.kill()
	})
}

// The broker is away for longer than it declared. The agent must give up. When the broker is back, it must count the
// messages that the agent has written.
func TestAgentGivesUpAfterDeclaredTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(0)
		away := a.client.Transport.(*mailbox.Transport).Book().Away
		if away != 30*time.Minute {
			t.Fatalf("the agent learns of %v", away)
		}
		w.kill()
		if n := a.report(1, 5, away); n != 0 {
			t.Fatalf("%d reports were accepted without a broker", n)
		}
		w.start()
		time.Sleep(time.Minute)
		w.allCounted(0, 1)
		w.empty()
		w.kill()
	})
}

// An agent that calls rarely uses few numbers of its mailbox. Its URLs must be renewed before they expire, not only
// when it needs more numbers.
func TestURLsAreRenewedBeforeTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.bucket.Limit(2 * time.Hour)
		a := w.agent(0)
		for n := 1; n <= 30; n++ {
			if a.report(n, n, 5*time.Minute) != 1 {
				t.Fatalf("report %d has no answer", n)
			}
			time.Sleep(50 * time.Minute)
		}
		w.allCounted(0, 30)
		w.empty()
		w.kill()
	})
}

// Half of the commands must reach the agent within 3 s by the test's clock. On a real network, the latency is added.
func TestOrdersReachAgentSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(0)
		rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // not a secret
		received, stop := make(chan time.Time, 1), make(chan struct{})
		go func() {
			for seen := "0"; ; {
				_, text := a.call("/order?seen="+seen, 80*time.Second, time.Hour)
				if text != seen {
					received <- time.Now()
				}
				seen = text
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		var took []time.Duration
		for range 200 {
			time.Sleep(time.Duration(rng.IntN(100_000)) * time.Millisecond)
			at := time.Now()
			w.ledger.give()
			took = append(took, (<-received).Sub(at))
		}
		close(stop)
		slices.Sort(took)
		t.Logf("orders took %v at the median, %v at the 90th percentile, %v at most", took[100], took[180], took[199])
		if took[100] > 3*time.Second {
			t.Errorf("half of the orders took more than %v", took[100])
		}
		w.empty()
		w.kill()
	})
}

func TestOnlySealedLettersAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(0)
		a.report(1, 3, time.Minute)
		calls := w.ledger.calls
		name := mailbox.InName("box", 0, 9)
		letter := mailbox.Letter{Number: 9, ID: "x", Method: http.MethodPost, Target: "/report/0/9"}
		other, err := mailbox.KeyOf([]byte("another broker's key"), "box").Seal(name, letter)
		if err != nil {
			t.Fatal(err)
		}
		moved, err := w.boxes.Key.Seal(mailbox.InName("box", 1, 9), letter)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range [][]byte{other, moved, []byte("text"), nil} {
			w.bucket.Write(folder+"/"+name, body)
			time.Sleep(time.Minute)
			if w.ledger.calls != calls || w.bucket.Body(folder+"/"+name) != nil {
				t.Errorf("a letter of %d bytes that no agent has sealed was answered or kept", len(body))
			}
		}
		w.empty()
		w.kill()
	})
}

func TestNothingReadableIsInTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(0)
		w.kill()
		go a.call("/report/secret-of-a-task", 30*time.Second, time.Minute)
		time.Sleep(5 * time.Second)
		if len(w.bucket.Names()) < 2 {
			t.Fatal("there is no letter")
		}
		for _, name := range w.bucket.Names() {
			if body := string(w.bucket.Body(name)); strings.Contains(body, "secret-of-a-task") || strings.Contains(body, "https://") {
				t.Errorf("%s can be read", name)
			}
		}
		time.Sleep(2 * time.Minute)
	})
}

// A machine starts its agent again. The new agent uses numbers that the first one has used, and must get answers to
// its own calls.
func TestSecondAgentOfMachineGetsItsOwnAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if n := w.agent(0).report(1, 10, time.Minute); n != 10 {
			t.Fatal("no answers")
		}
		again := w.agent(0)
		for i := range 10 {
			w.ledger.mu.Lock()
			w.ledger.ended = i == 9
			w.ledger.mu.Unlock()
			want := http.StatusOK
			if i == 9 {
				want = http.StatusGone
			}
			if status, _ := again.call(fmt.Sprint("/again/", i), 30*time.Second, 5*time.Minute); status != want {
				t.Errorf("call %d: %d, want %d", i, status, want)
			}
		}
		w.empty()
		w.kill()
	})
}

// A broker that stops for good ends its machines and then clears the mailbox. No message may remain.
func TestClearLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agent(0).report(1, 20, time.Minute)
		w.bucket.Write(folder+"/notes.txt", nil) // a file of another program
		w.kill()
		if err := w.desk.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := w.bucket.Names(); len(left) != 1 {
			t.Errorf("left: %v", left)
		}
	})
}
