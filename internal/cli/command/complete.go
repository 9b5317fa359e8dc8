package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// CompleteCatalog adds shell completion of words from the built-in catalogue to a flag.
func CompleteCatalog(c *cobra.Command, flag string, words func(*catalog.Catalog) []string) {
	_ = c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		known, err := catalog.Default()
		if err != nil {
			return nil, none
		}
		// Flags for several values take them separated by commas.
		before, last := "", typed
		if i := strings.LastIndex(typed, ","); i >= 0 {
			before, last = typed[:i+1], typed[i+1:]
		}
		var out []string
		for _, w := range words(known) {
			if strings.HasPrefix(strings.ToLower(w), strings.ToLower(last)) {
				out = append(out, before+w)
			}
		}
		return out, none
	})
}

// Accelerators returns the names of all accelerators.
func Accelerators(c *catalog.Catalog) (names []string) {
	for _, a := range c.Accelerators() {
		names = append(names, a.Name)
	}
	return names
}

// Regions returns the names of all regions.
func Regions(c *catalog.Catalog) (names []string) {
	for _, cloud := range c.Clouds() {
		names = append(names, c.Regions(cloud)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// InstanceTypes returns the names of all machine types.
func InstanceTypes(c *catalog.Catalog) (names []string) {
	seen := map[string]bool{}
	for o := range c.All() {
		if !seen[o.InstanceType] {
			seen[o.InstanceType] = true
			names = append(names, o.InstanceType)
		}
	}
	slices.Sort(names)
	return names
}
