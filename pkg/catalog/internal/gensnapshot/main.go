// Command gensnapshot makes the catalogue data that the binary embeds from published data. Run it with
// "go generate ./pkg/catalog".
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/catalog/sellable"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func main() {
	data := flag.String("data", "", "folder with the published data: catalog/, carbon/ and egress/")
	out := flag.String("out", ".", "folder of the package catalog")
	flag.Parse()
	if _, err := os.Stat(filepath.Join(*data, "catalog")); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "gensnapshot: no published data in %q; the embedded catalogue is unchanged\n", *data)
		return
	}
	if err := generate(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gensnapshot:", err)
		os.Exit(1)
	}
}

func generate(data, out string) error {
	for to, from := range map[string]string{
		"data/carbon.csv":                    filepath.Join("carbon", "gcp-2024.csv"),
		"egress/data/aws_transfer_costs.csv": filepath.Join("egress", "aws_transfer_costs.csv"),
	} {
		content, err := os.ReadFile(filepath.Join(data, from)) //nolint:gosec // the developer chooses the folder
		if err != nil {
			return err
		}
		if err := write(filepath.Join(out, to), content); err != nil {
			return err
		}
	}
	c, err := catalog.Load(os.DirFS(filepath.Join(data, "catalog")))
	if err != nil {
		return err
	}
	c, dropped, err := sellable.Only(c)
	if err != nil {
		return err
	}
	c, implausible, err := sellable.Plausible(c)
	if err != nil {
		return err
	}
	for market, n := range implausible {
		dropped["a price below 0.3 of the median, "+market] += n
	}
	for _, why := range slices.Sorted(maps.Keys(dropped)) {
		fmt.Printf("%d offers dropped, %s\n", dropped[why], why)
	}
	var snapshot bytes.Buffer
	if err := c.WriteSnapshot(&snapshot); err != nil {
		return err
	}
	fmt.Printf("%d offers, %d bytes\n", c.Len(), snapshot.Len())
	return write(filepath.Join(out, "data", "offers.snapshot"), snapshot.Bytes())
}

func write(name string, content []byte) error {
	return os.WriteFile(name, content, 0o644) //nolint:gosec // part of the source, not a secret
}
