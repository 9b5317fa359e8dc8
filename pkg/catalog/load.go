package catalog

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxFileBytes bounds one catalogue file once decompressed: twenty times the
// largest today.
const maxFileBytes = 64 << 20

// Open loads the catalogue that a --catalog flag names: the CSV files of a
// directory, or the embedded snapshot if dir is empty.
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

// Load reads the catalogue files in the root of fsys: *.csv and *.csv.gz, one a
// cloud, named after it. Other files are ignored.
//
// The columns are SkyPilot's, found by their header and in any order:
// InstanceType, AcceleratorName, AcceleratorCount, vCPUs, MemoryGiB, Price and
// Region are required; AvailabilityZone, SpotPrice, SpotInterruptionBand,
// EMRPrice and Arch are optional; others are ignored. A row without an on-demand
// price is not an offer, since a job that may be interrupted needs one to fall
// back on. In a file called gcp, rows without an InstanceType are accelerators
// to be combined with hosts.
//
// What cannot be read is refused with a [*DataError] naming file, line and
// column.
func Load(fsys fs.FS) (*Catalog, error) { return load(fsys, maxFileBytes) }

// load is Load with a bound on the bytes of a file once decompressed.
func load(fsys fs.FS, maxBytes int64) (*Catalog, error) {
	files, err := catalogueFiles(fsys)
	if err != nil {
		return nil, err
	}
	b := newBuilder()
	for _, f := range files {
		if err := loadFile(fsys, f, maxBytes, b); err != nil {
			return nil, err
		}
	}
	cols, err := b.columns()
	if err != nil {
		return nil, err
	}
	return newCatalog(cols), nil
}

type catalogueFile struct {
	name, cloud string
	gzipped     bool
}

func catalogueFiles(fsys fs.FS) ([]catalogueFile, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("catalogue directory: %w", err)
	}
	var files []catalogueFile
	of := make(map[string]string)
	for _, e := range entries {
		base, gzipped := strings.CutSuffix(e.Name(), ".gz")
		cloud, ok := strings.CutSuffix(base, ".csv")
		if !ok || e.IsDir() {
			continue
		}
		if !validName(cloud) || len(cloud) > 32 || cloud != strings.ToLower(cloud) {
			return nil, &DataError{File: e.Name(),
				Reason: "the file's name has to be that of a cloud in lower case, such as aws.csv"}
		}
		if other, taken := of[cloud]; taken {
			return nil, &DataError{File: e.Name(), Reason: "is a second file for " + cloud + ", beside " + other}
		}
		of[cloud] = e.Name()
		files = append(files, catalogueFile{name: e.Name(), cloud: cloud, gzipped: gzipped})
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: no CLOUD.csv or CLOUD.csv.gz in the catalogue directory", ErrBadData)
	}
	return files, nil
}

func loadFile(fsys fs.FS, file catalogueFile, maxBytes int64, b *builder) (err error) {
	f, err := fsys.Open(file.name)
	if err != nil {
		return fmt.Errorf("catalogue file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var r io.Reader = f
	if file.gzipped {
		z, err := gzip.NewReader(f)
		if err != nil {
			return &DataError{File: file.name, Reason: "is not gzip: " + err.Error()}
		}
		r = z
	}
	return readCSV(file.name, file.cloud, &boundedReader{r: r, limit: maxBytes}, b)
}

// boundedReader fails, rather than ends, at its limit: a file cut short must not
// pass for a whole one.
type boundedReader struct {
	r           io.Reader
	read, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.read >= b.limit {
		return 0, fmt.Errorf("is larger than %d bytes", b.limit)
	}
	if left := b.limit - b.read; int64(len(p)) > left {
		p = p[:left]
	}
	n, err := b.r.Read(p)
	b.read += int64(n)
	return n, err
}
