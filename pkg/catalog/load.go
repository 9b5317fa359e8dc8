package catalog

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
)

// maxFileBytes limits the decompressed size of one catalogue file: twenty times the largest today.
const maxFileBytes = 64 << 20

// Open loads the catalogue for a --catalog flag: the CSV files of a directory, or the embedded snapshot if dir is
// empty.
func Open(dir string) (*Catalog, error) {
	if dir == "" {
		return Default()
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("catalogue directory: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf(
			"catalogue directory: %s is a file; name the directory that holds CLOUD.csv or CLOUD.csv.gz files", dir)
	}
	return Load(os.DirFS(dir))
}

// Load reads the catalogue files in the root of fsys: *.csv and *.csv.gz, one for each cloud and named after it.
// Other files are ignored.
//
// The columns are SkyPilot's. They are found by their header and may be in any order: InstanceType, AcceleratorName,
// AcceleratorCount, vCPUs, MemoryGiB, Price and Region are required; AvailabilityZone, SpotPrice,
// SpotInterruptionBand, EMRPrice and Arch are optional; others are ignored. A row without an on-demand price is not
// an offer, because a job that may be interrupted needs one to fall back on. In a file called gcp, rows without an
// InstanceType are accelerators that are combined with hosts.
//
// Load returns a [*DataError] with the file, line and column of data that it cannot read.
func Load(fsys fs.FS) (*Catalog, error) {
	cols, err := skypilot.Load(fsys, maxFileBytes)
	if err != nil {
		return nil, err
	}
	return newCatalog(cols), nil
}
