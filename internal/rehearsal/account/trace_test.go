package account

import (
	"maps"
	"testing"
	"time"
)

// Each moment must count once, for the deepest span at that time: a called function, a service that a function waits
// for, or the start of a process. If no function works, the time counts as the way to the function that starts next.
func TestTraceSplit(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }
	trace := &Trace{}
	for _, s := range []Span{
		{InFunction, "provision", "", at(-50), at(100)},
		{InFunction, "cloud-azure", "", at(-20), at(30)},
		{InService, "provision", "dynamodb", at(60), at(90)},
		{InService, "api", "dynamodb", at(110), at(400)}, // another function
		{Starting, "optimize", "", at(200), at(260)},
		{InFunction, "optimize", "", at(200), at(300)},
		{InFunction, "cloud-gcp", "", at(450), at(900)},
		{InFunction, "old", "", at(-90), at(-80)},
	} {
		trace.add(s)
	}
	got := trace.Split(at(0), at(500), []string{"provision", "optimize", "cloud-azure", "cloud-gcp"})
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	want := map[string]time.Duration{
		"in cloud-azure": ms(30), "in provision": ms(40), "emulated dynamodb": ms(30),
		"on the way to optimize": ms(100),
		"start of a process":     ms(60), "in optimize": ms(40), "on the way to cloud-gcp": ms(150), "in cloud-gcp": ms(50),
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	var sum time.Duration
	for _, d := range got {
		sum += d
	}
	if sum != ms(500) {
		t.Errorf("the parts are %v of 500ms", sum)
	}
	(*Trace)(nil).add(Span{}) // a nil trace ignores spans
}
