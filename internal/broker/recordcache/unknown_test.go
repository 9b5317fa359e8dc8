package recordcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

type versionedNode struct {
	Rank int            `json:"rank"`
	Text string         `json:"text,omitempty"`
	More *versionedNode `json:"more,omitempty"`
}

type versioned struct {
	Name  string                   `json:"name"`
	Nodes []versionedNode          `json:"nodes,omitempty"`
	Named map[string]versionedNode `json:"named,omitempty"`
	Plain []int                    `json:"plain,omitempty"`
}

// A record of a newer version is read, changed and written by this one.
func TestMembersOfNewerVersionAreKept(t *testing.T) {
	k, key := NewKept(0), store.Key{Partition: "p", Sort: "s"}
	const newer = `{"name":"n","spentUSD":12.5,"nodes":[{"rank":0,"gpu":"a"},{"rank":1,"gpu":"b","more":{"rank":9,"deep":[1]}},{"rank":2,"gpu":"c"}],
		"named":{"x":{"rank":0,"gpu":"d"},"y":{"rank":0,"gpu":"e"}},"plain":[1]}`
	v, err := Decode[versioned](k.records, key, []byte(newer))
	if err != nil {
		t.Fatal(err)
	}
	v.Name = "changed"
	v.Nodes = append([]versionedNode{{Rank: 7}}, v.Nodes[1:]...) // one is new, one is gone
	v.Nodes[1].Text = "changed"
	delete(v.Named, "x")
	v.Plain = append(v.Plain, 2)
	body, err := k.Encode(record.Write{Key: key, Value: v}, []byte(newer))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"changed","spentUSD":12.5,"nodes":[{"rank":7},{"rank":1,"text":"changed","gpu":"b","more":{"rank":9,"deep":[1]}},{"rank":2,"gpu":"c"}],
		"named":{"y":{"rank":0,"gpu":"e"}},"plain":[1,2]}`
	if !sameJSON(t, string(body), want) {
		t.Errorf("written: %s", body)
	}
	again, err := Decode[versioned](k.records, key, body)
	if err != nil || !reflect.DeepEqual(again, v) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	removed, err := k.Encode(record.Write{Key: key}, body)
	if removed != nil || err != nil {
		t.Errorf("a removed record: %s, %v", removed, err)
	}
}

func TestElementsWithSameIdentityKeepTheirOwnMembers(t *testing.T) {
	k, key := NewKept(0), store.Key{Partition: "p", Sort: "s"}
	const newer = `{"name":"n","nodes":[{"rank":1,"gpu":"a"},{"rank":1,"gpu":"b"}]}`
	v, err := Decode[versioned](k.records, key, []byte(newer))
	if err != nil {
		t.Fatal(err)
	}
	v.Nodes[1].Text = "second"
	body, err := k.Encode(record.Write{Key: key, Value: v}, []byte(newer))
	if want := `{"name":"n","nodes":[{"rank":1,"gpu":"a"},{"rank":1,"gpu":"b","text":"second"}]}`; err != nil || !sameJSON(t, string(body), want) {
		t.Errorf("written: %s, %v", body, err)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	k, key := NewKept(0), store.Key{Partition: "p", Sort: "s"}
	if _, err := Decode[versioned](k.records, key, fmt.Appendf(nil, `{"name":"n","format":%d}`, Format+1)); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("format %d: %v", Format+1, err)
	}
	if v, err := Decode[versioned](k.records, key, []byte(`{"name":"n","format":2}`)); err != nil || v.Name != "n" {
		t.Errorf("format 2: %+v, %v", v, err)
	}
}

// An older version reads every kind of member, and what it writes back is the record.
func TestOlderVersionKeepsRecord(t *testing.T) {
	key := store.Key{Partition: "p", Sort: "s"}
	m := record.Ledger{SpentUSD: 3, ReservedUSD: 2}
	for _, forgets := range []bool{false, true} {
		k := NewKept(0)
		k.Share(NewDecoded())
		k.records.Between(&Older{Forgets: forgets})
		for _, v := range []any{m, versioned{Name: "n", Nodes: []versionedNode{{Rank: 1, Text: "x", More: &versionedNode{Text: "y"}}},
			Named: map[string]versionedNode{"a": {Text: "z"}}, Plain: []int{1}}} {
			want, _ := json.Marshal(v)
			body, err := k.Encode(record.Write{Key: key, Value: v}, nil)
			if err != nil || sameJSON(t, string(body), string(want)) == forgets {
				t.Errorf("it forgets: %v\n%s\n%s\n%v", forgets, body, want, err)
			}
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}
