package egress

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func offers(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func standardPrices(t testing.TB) *Prices {
	t.Helper()
	e, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAWSPricesMatchTable(t *testing.T) {
	f, err := os.Open("../../../../shared/data/egress/aws_transfer_costs.csv")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs the published transfer prices")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil || len(records) < 600 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	e := standardPrices(t)
	for _, r := range records[1:] {
		want, err := strconv.ParseFloat(r[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		to := "aws:" + r[1]
		if r[1] == "internet" {
			to = "lambda:us-east-1"
		}
		if got, err := e.USDPerGiB("aws:"+r[0], to); err != nil || got != want {
			t.Errorf("%s → %s: %g, %v; want %g", r[0], r[1], got, err, want)
		}
	}
}

func TestEgressListPrices(t *testing.T) {
	e := standardPrices(t)
	for _, c := range []struct {
		from, to string
		usd      float64
	}{
		{"aws:us-east-1", "aws:us-east-1", 0},
		{"aws:us-east-1", "aws:us-east-2", 0.01},
		{"aws:us-east-1", "gcp:us-central1", 0.09},
		{"aws:sa-east-1", "azure:eastus", 0.15},
		// the pair is not in the table: the highest price from this source
		{"aws:ap-southeast-3", "aws:sa-east-1", 0.10},
		{"aws:nowhere-1", "aws:us-east-1", 0.09},
		{"aws:nowhere-1", "gcp:us-central1", 0.09},
		{"gcp:us-central1", "aws:us-east-1", 0.12},
		{"gcp:us-central1", "gcp:us-central1", 0},
		{"gcp:us-central1", "gcp:northamerica-northeast1", 0.02},
		{"gcp:europe-west1", "gcp:europe-west4", 0.02},
		{"gcp:us-central1", "gcp:europe-west4", 0.05},
		{"gcp:europe-west4", "gcp:asia-east1", 0.08},
		{"gcp:asia-east1", "gcp:asia-south1", 0.08},
		{"gcp:us-central1", "gcp:australia-southeast1", 0.10},
		{"gcp:asia-southeast2", "gcp:australia-southeast1", 0.08},
		{"gcp:us-central1", "gcp:me-west1", 0.11},
		{"gcp:africa-south1", "gcp:europe-west1", 0.11},
		{"gcp:africa-south1", "gcp:australia-southeast1", 0.14},
		{"gcp:us-central1", "gcp:southamerica-east1", 0.14},
		{"azure:eastus", "azure:westus3", 0.02},
		{"azure:eastus", "azure:westeurope", 0.05},
		{"azure:westeurope", "azure:austriaeast", 0.02},
		{"azure:japaneast", "azure:eastus", 0.08},
		{"azure:brazilsouth", "azure:eastus", 0.16},
		{"azure:eastus", "aws:us-east-1", 0.0875},
		{"azure:australiaeast", "aws:us-east-1", 0.12},
		{"azure:brazilsouth", "aws:us-east-1", 0.181},
		{"lambda:us-east-1", "aws:us-east-1", 0},
		{"lambda:us-east-1", "lambda:us-west-1", 0},
		{"mycloud:here", "aws:us-east-1", 0.12},
		{"mycloud:here", "mycloud:here", 0},
	} {
		if got, err := e.USDPerGiB(c.from, c.to); err != nil || got != c.usd {
			t.Errorf("%s → %s: %g USD/GiB, %v; want %g", c.from, c.to, got, err, c.usd)
		}
	}
}

func TestEveryRegionHasContinent(t *testing.T) {
	c := offers(t)
	for _, cloud := range []string{"azure", "gcp"} {
		for _, region := range c.Regions(cloud) {
			if continentOf(cloud, region) == unknownContinent {
				t.Errorf("%s:%s has no continent", cloud, region)
			}
		}
	}
	for region, want := range map[string]continent{
		"australiaeast": oceania, "austriaeast": europe, "westus": northAmerica, "southcentralus": northAmerica,
		"southafricanorth": africa, "southeastasia": asia, "southindia": asia, "uaenorth": middleEast, "ukwest": europe,
		"brazilsoutheast": southAmerica, "mexicocentral": northAmerica, "jioindiawest": asia,
	} {
		if got := continentOf("azure", region); got != want {
			t.Errorf("%s is on %d, want %d", region, got, want)
		}
	}
}

func TestMatrixMatchesSinglePrices(t *testing.T) {
	e := standardPrices(t)
	places := offers(t).Regions("")
	usd, hours, err := e.Matrix(places)
	if err != nil {
		t.Fatal(err)
	}
	tenGbit := float64(8<<30) / 10e9 / 3600
	for i, from := range places {
		for j, to := range places {
			wantUSD, err := e.USDPerGiB(from, to)
			if err != nil || usd[i][j] != wantUSD || wantUSD < 0 || wantUSD > 0.2 {
				t.Fatalf("%s → %s: %g USD/GiB, %g (%v)", from, to, usd[i][j], wantUSD, err)
			}
			wantHours, err := e.HoursPerGiB(from, to)
			if err != nil || hours[i][j] != wantHours {
				t.Fatalf("%s → %s: %g h/GiB, %g (%v)", from, to, hours[i][j], wantHours, err)
			}
			if i == j && (usd[i][j] != 0 || hours[i][j] != 0) || i != j && math.Abs(hours[i][j]-tenGbit) > 1e-12 {
				t.Fatalf("%s → %s: %g USD/GiB, %g h/GiB", from, to, usd[i][j], hours[i][j])
			}
		}
	}
	usd, hours, err = e.Matrix(nil)
	if err != nil || len(usd) != 0 || len(hours) != 0 {
		t.Errorf("without places: %v, %v, %v", usd, hours, err)
	}
}

func TestPricesRejectUnknownPlaces(t *testing.T) {
	e := standardPrices(t)
	for _, place := range []string{"", "aws", "aws:", ":us-east-1", "aws:us-east-1:use1-az1"} {
		if _, err := e.USDPerGiB(place, "aws:us-east-1"); !errors.Is(err, ErrUnknownPlace) {
			t.Errorf("from %q: %v", place, err)
		}
		if _, err := e.HoursPerGiB("aws:us-east-1", place); !errors.Is(err, ErrUnknownPlace) {
			t.Errorf("to %q: %v", place, err)
		}
		if _, _, err := e.Matrix([]string{"aws:us-east-1", place}); !errors.Is(err, ErrUnknownPlace) {
			t.Errorf("among places %q: %v", place, err)
		}
	}
}

func TestParseRejectsDamagedPrices(t *testing.T) {
	for _, text := range []string{
		"src,dst,cost\na,b\n", "src,dst,cost\na,b,dear\n", "src,dst,cost\na,b,-1\n", "src,dst,cost\na,b,NaN\n", "src,dst,cost\na,b,Inf\n", "\"",
		"src,dst\na,b\n",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), "AWS transfer prices") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
