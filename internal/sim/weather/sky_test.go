package weather

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
)

func TestFrontIsIndependentOfQueries(t *testing.T) {
	of := Span{Good: time.Hour, Bad: 20 * time.Minute}
	forward, backward := New(timeline.New(3, 1, nil), &Faults{}, nil, nil).front("zone", of), New(timeline.New(3, 1, nil), &Faults{}, nil, nil).front("zone", of)
	var a, b []bool
	const hours = 200
	for i := range hours {
		ill, _ := forward.ill(timeline.Beginning().Add(time.Duration(i) * time.Hour))
		a = append(a, ill)
	}
	for i := range hours {
		ill, until := backward.ill(timeline.Beginning().Add(time.Duration(hours-1-i) * time.Hour))
		b = append(b, ill)
		if !until.After(timeline.Beginning().Add(time.Duration(hours-1-i) * time.Hour)) {
			t.Fatal("a span ended before the time it was queried for")
		}
	}
	ills := 0
	for i := range hours {
		if a[i] != b[hours-1-i] {
			t.Fatalf("hour %d differs", i)
		}
		if a[i] {
			ills++
		}
	}
	if ills < hours/8 || ills > hours/2 {
		t.Errorf("%d of %d hours are ill, about a quarter should be", ills, hours)
	}
}
