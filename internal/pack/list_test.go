package pack_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/pack"
)

func TestParseListRejectsInvalidLists(t *testing.T) {
	digest := string(pack.DigestOf([]byte("x")))
	list := func(entries, pieces string) string {
		return `{"version":1,"entries":[` + entries + `],"pieces":[` + strings.ReplaceAll(pieces, "D", digest) + `]}`
	}
	const folder = `{"path":"d","mode":493,"dir":true},`
	for body, want := range map[string]error{
		list(`{"path":"a","size":1}`, `{"digest":"D","size":1}`):                   nil,
		list(folder+`{"path":"d/l","link":"../a"}`, ""):                            nil,
		list(`{"path":"."}`, ""):                                                   nil,
		list(`{"path":"../a"}`, ""):                                                pack.ErrLeaves,
		list(`{"path":"/a"}`, ""):                                                  pack.ErrLeaves,
		list(`{"path":"a"},{"path":"."}`, ""):                                      pack.ErrLeaves,
		list(folder+`{"path":"d/../../a"}`, ""):                                    pack.ErrLeaves,
		list(`{"path":"l","link":"/etc"}`, ""):                                     pack.ErrLeaves,
		list(`{"path":"l","link":".."}`, ""):                                       pack.ErrLeaves,
		list(folder+`{"path":"d/l","link":"../../a"}`, ""):                         pack.ErrLeaves,
		list(`{"path":"l","link":"x/../.."}`, ""):                                  pack.ErrLeaves,
		list(`{"path":".","link":"x"}`, ""):                                        pack.ErrCorrupt,
		list(`{"path":"l","link":"x"},{"path":"l/a"}`, ""):                         pack.ErrCorrupt,
		list(`{"path":"a/b"}`, ""):                                                 pack.ErrCorrupt,
		list(`{"path":"b"},{"path":"a"}`, ""):                                      pack.ErrCorrupt,
		list(`{"path":"a"},{"path":"a"}`, ""):                                      pack.ErrCorrupt,
		list(`{"path":"a","mode":2541}`, ""):                                       pack.ErrCorrupt, // set user ID
		list(`{"path":"a","size":2}`, `{"digest":"D","size":1}`):                   pack.ErrCorrupt,
		list(`{"path":"a","size":1}`, `{"digest":"D","size":2}`):                   pack.ErrCorrupt,
		list(`{"path":"a","size":-1},{"path":"b","size":1}`, ""):                   pack.ErrCorrupt,
		list(folder+`{"path":"e","size":1,"dir":true}`, `{"digest":"D","size":1}`): pack.ErrCorrupt,
		list(`{"path":"a","size":1}`, `{"digest":"x","size":1}`):                   pack.ErrCorrupt,
		list(`{"path":"a","size":9000000}`, `{"digest":"D","size":9000000}`):       pack.ErrCorrupt,
		`{"version":2}`: pack.ErrCorrupt,
		`{`:             pack.ErrCorrupt,
	} {
		if _, err := pack.ParseList([]byte(body)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
	}
}
