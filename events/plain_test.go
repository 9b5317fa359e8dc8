package events

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func written(t testing.TB, d Data) []byte {
	t.Helper()
	body, err := New("1", "tradewind/fuzz", time.Date(2026, 5, 20, 1, 2, 3, 450, time.UTC), d).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestWrittenEventsArePlain(t *testing.T) {
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

func TestOtherEventsAreNotPlain(t *testing.T) {
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
			t.Errorf("%s is parsed as plain", other)
		}
	}
}

// FuzzPlain: plain events mean the same to both ways of reading them.
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

// TestPlainWriterAgreesWithGeneral: the plain and the general writer write the same event.
func TestPlainWriterAgreesWithGeneral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		simple := rapid.StringMatching(`[a-z0-9-]{1,12}`)
		odd := rapid.SampledFrom([]string{"", " ", " a", "a ", "<&>", "\u2028", "\t", `"`, `\`, "\xff", "ü", "\b"})
		text := rapid.OneOf(simple, simple, simple, simple, odd, rapid.String())
		at := time.Unix(rapid.Int64Range(-1e10, 1e10).Draw(t, "s"), rapid.Int64Range(0, 1e9).Draw(t, "ns"))
		e := New(text.Draw(t, "id"), "tradewind/"+text.Draw(t, "source"), at.In(time.FixedZone("", 3600)),
			DAGReplan{Job: text.Draw(t, "job"), Reason: text.Draw(t, "reason")})
		data, err := e.marshalData()
		if err != nil {
			t.Fatal(err)
		}
		plain, ok := e.marshalPlain(data)
		if !ok {
			return
		}
		full, err := e.marshalAny(data)
		if err != nil {
			t.Fatalf("%s cannot be written in full: %v", plain, err)
		}
		got, err := parseAny(plain)
		want, wrong := parseAny(full)
		if err != nil || wrong != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is\n%+v (%v), in full\n%+v (%v)", plain, got, err, want, wrong)
		}
	})
}
