package catalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

func TestSnapshotRoundTrip(t *testing.T) {
	c := sampleCatalog(t)
	var b bytes.Buffer
	if err := c.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	again, err := ReadSnapshot(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.cols, c.cols) {
		t.Error("the catalogue read is not the one written")
	}
	if !reflect.DeepEqual(again.plain, c.plain) {
		t.Error("the indexes differ")
	}
}

func TestWriteSnapshotReturnsWriteErrors(t *testing.T) {
	failure := errors.New("disk full")
	if err := tiny(t).WriteSnapshot(failingWriter{failure}); !errors.Is(err, failure) {
		t.Errorf("%v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestReadSnapshotRejectsDamagedData(t *testing.T) {
	for what, data := range map[string][]byte{
		"nothing":    nil,
		"magic":      []byte(snapshotMagic),
		"other":      []byte("PK\x03\x04 is something else"),
		"cut short":  embeddedSnapshot[:len(embeddedSnapshot)/2],
		"cut by one": embeddedSnapshot[:len(embeddedSnapshot)-1],
	} {
		if _, err := ReadSnapshot(data); !errors.Is(err, table.ErrBadSnapshot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	flipped := bytes.Clone(embeddedSnapshot)
	flipped[len(flipped)/2] ^= 0x10
	if _, err := ReadSnapshot(flipped); !errors.Is(err, table.ErrBadSnapshot) {
		t.Errorf("a flipped bit: %v", err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := z.EncodeAll(make([]byte, 2*table.MaxBytes), []byte(snapshotMagic))
	if _, err := ReadSnapshot(bomb); !errors.Is(err, table.ErrBadSnapshot) {
		t.Errorf("a bomb of %d bytes: %v", len(bomb), err)
	}
}

// tiny returns a catalogue so small that a test can damage each byte of its snapshot.
func tiny(t testing.TB) *Catalog {
	t.Helper()
	b := table.NewBuilder()
	m := table.Machine{Cloud: "aws", InstanceType: "m5.large", Vcpu: 2, MemoryGiB: 8}
	dearer, gpu := m, m
	dearer.Emr = 24e6
	gpu.InstanceType, gpu.Accelerator, gpu.Count, gpu.Attached, gpu.Arm = "m5g.large", "V100", 2, true, true
	for i, m := range []table.Machine{m, dearer, gpu} {
		for zone := range 2 {
			if i < 2 && i != zone {
				continue
			}
			o := table.Offer{OnDemand: table.NanoUSD(1e8 * (i + zone + 1)), Spot: 5e7, Band: uint8(Interruption5To10)}
			if err := b.Add(m, table.Place{Cloud: "aws", Region: "r", Zone: "z" + formatCount(float64(zone))}, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	cols, err := b.Columns()
	if err != nil {
		t.Fatal(err)
	}
	return newCatalog(cols)
}

func TestReadSnapshotSurvivesEveryBitFlip(t *testing.T) {
	sound := table.Encode(tiny(t).cols)
	if _, err := table.Decode(sound); err != nil {
		t.Fatal(err)
	}
	for i := range sound {
		if _, err := table.Decode(sound[:i]); !errors.Is(err, table.ErrBadSnapshot) {
			t.Errorf("cut at %d of %d: %v", i, len(sound), err)
		}
		for bit := range 8 {
			damaged := bytes.Clone(sound)
			damaged[i] ^= 1 << bit
			cols, err := table.Decode(damaged)
			if err == nil {
				// A damaged snapshot may still be valid, with another price or name. Then queries must work.
				checkSound(t, newCatalog(cols))
			} else if !errors.Is(err, table.ErrBadSnapshot) {
				t.Errorf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
	if _, err := table.Decode(append(bytes.Clone(sound), 0)); !errors.Is(err, table.ErrBadSnapshot) {
		t.Errorf("an additional byte: %v", err)
	}
}

func TestReadSnapshotDoesNotAllocateForHugeCounts(t *testing.T) {
	for places := range 4 {
		var b []byte
		for range places {
			b = binary.AppendUvarint(b, 0)
		}
		b = binary.AppendUvarint(b, 1<<62)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := table.Decode(b)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, table.ErrBadSnapshot) {
			t.Fatalf("after %d empty counts: %v", places, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
			t.Errorf("rejecting a huge count after %d empty ones allocates %d bytes", places, allocated)
		}
	}
}

func FuzzReadSnapshot(f *testing.F) {
	var small bytes.Buffer
	if err := tiny(f).WriteSnapshot(&small); err != nil {
		f.Fatal(err)
	}
	f.Add(small.Bytes(), false)
	f.Add(table.Encode(tiny(f).cols), true)
	f.Add([]byte(snapshotMagic), false)
	f.Fuzz(func(t *testing.T, data []byte, decompressed bool) {
		if !decompressed {
			if c, err := ReadSnapshot(data); err == nil && c.Len() > 0 {
				checkSound(t, c)
			}
			return
		}
		if cols, err := table.Decode(data); err == nil && cols.Len() > 0 {
			checkSound(t, newCatalog(cols))
		}
	})
}
