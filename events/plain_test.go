package events

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func written(t testing.TB, d Data) []byte {
	t.Helper()
	body, err := New("1", "tradewind/fuzz", time.Date(2026, 5, 20, 1, 2, 3, 450, time.UTC), d).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestWhatTradewindWritesIsPlain(t *testing.T) {
	for _, d := range All() {
		v := reflect.New(reflect.TypeOf(d)).Elem()
		for i := range v.NumField() { // a subject must not be empty
			if v.Field(i).Kind() == reflect.String {
				v.Field(i).SetString("x")
			}
		}
		body := written(t, v.Interface().(Data))
		if _, ok := parsePlain(body); !ok {
			t.Errorf("%s is not plain", body)
		}
	}
}

func TestWhatIsNotPlainIsReadInFull(t *testing.T) {
	body := string(written(t, DAGReplan{Job: "j", Plan: 2}))
	if _, ok := parsePlain([]byte(body)); !ok {
		t.Fatalf("%s is not plain", body)
	}
	for old, replacement := range map[string]string{
		`"plan":2`:                         `"plan":2,"mood":"hopeful"`,
		`"plan":2}`:                        `"PLAN":2}`,
		`"id":"1"`:                         `"id":" "`,
		`"subject":"j"`:                    `"subject":""`,
		`"1.0"`:                            `"0.3"`,
		`"tradewind/fuzz"`:                 `"http://[::1"`,
		`"specversion"`:                    `"traceparent":"00-ab-cd-01","specversion"`,
		`application/json`:                 `text/json`,
		`"2026-05-20T01:02:03.`:            `"yesterday 2026-05-20T01:02:03.`,
		`"tradewind.dag.replan.v1"`:        `"tradewind.dag.sung.v1"`,
		`{"job":"j","reason":"","plan":2}`: `null`,
		`"reason":"","plan":2`:             `"reason":"","plan":"two"`,
	} {
		other := strings.Replace(body, old, replacement, 1)
		if _, ok := parsePlain([]byte(other)); ok || other == body {
			t.Errorf("%s is taken for plain", other)
		}
	}
}

// FuzzPlain: what is plain means the same to both ways of reading it.
func FuzzPlain(f *testing.F) {
	for _, d := range All() {
		f.Add(written(f, d))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		quick, ok := parsePlain(body)
		if !ok {
			return
		}
		full, err := parseAny(body)
		if err != nil || !quick.Time.Equal(full.Time) {
			t.Fatalf("%s is plain, and in full %v %v", body, full, err)
		}
		quick.Time = full.Time
		if !reflect.DeepEqual(quick, full) {
			t.Errorf("%s is\n%#v, in full\n%#v", body, quick, full)
		}
	})
}
