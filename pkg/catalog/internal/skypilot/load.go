package skypilot

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// Load reads the files in the root of fsys, each of at most maxBytes once decompressed.
func Load(fsys fs.FS, maxBytes int64) (*table.Columns, error) {
	files, err := catalogueFiles(fsys)
	if err != nil {
		return nil, err
	}
	b := table.NewBuilder()
	for _, f := range files {
		if err := loadFile(fsys, f, maxBytes, b); err != nil {
			return nil, err
		}
	}
	cols, err := b.Columns()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadData, err)
	}
	return cols, nil
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
		if !table.ValidName(cloud) || len(cloud) > 32 || cloud != strings.ToLower(cloud) {
			return nil, &DataError{File: e.Name(),
				Reason: "the file's name has to be that of a cloud in lower case, such as aws.csv"}
		}
		if other, taken := of[cloud]; taken {
			return nil, &DataError{
				File:   e.Name(),
				Reason: "is a second file for " + cloud + ", in addition to " + other,
			}
		}
		of[cloud] = e.Name()
		files = append(files, catalogueFile{name: e.Name(), cloud: cloud, gzipped: gzipped})
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: no CLOUD.csv or CLOUD.csv.gz in the catalogue directory", ErrBadData)
	}
	return files, nil
}

func loadFile(fsys fs.FS, file catalogueFile, maxBytes int64, b *table.Builder) (err error) {
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

// boundedReader returns an error at its limit, not io.EOF: a truncated file must not pass for a complete one.
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
