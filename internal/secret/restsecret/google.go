package restsecret

import (
	"context"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// GoogleAPI is the URL of Google Secret Manager.
const GoogleAPI = "https://secretmanager.googleapis.com"

var googleName = lazyregexp.New(
	`^projects/[a-z0-9:.-]{1,63}/secrets/[A-Za-z0-9_-]{1,255}(/versions/[A-Za-z0-9_-]{1,63})?$`)

var errDamaged = errors.New("the answer of Google Secret Manager does not match its checksum")

// Google fetches secrets from Google Secret Manager. Without a version in the name it fetches the latest.
type Google struct {
	Client   Client
	Endpoint string // GoogleAPI, or the URL of an emulator
}

// Fetch implements secret.Source (Secret Manager API v1, projects.secrets.versions.access).
func (g Google) Fetch(ctx context.Context, name string) (string, error) {
	if !googleName.MatchString(name) {
		return "", malformed("gcpsm:projects/PROJECT/secrets/NAME, optionally with /versions/VERSION")
	}
	if !strings.Contains(name, "/versions/") {
		name += "/versions/latest"
	}
	var version struct {
		Payload struct {
			Data       string `json:"data"`
			DataCrc32c string `json:"dataCrc32c"` // a number in a string, because JSON has no 64-bit integers
		} `json:"payload"`
	}
	if err := get(ctx, g.Client, g.Endpoint+"/v1/"+name+":access", &version); err != nil {
		return "", err
	}
	value, err := base64.StdEncoding.DecodeString(version.Payload.Data)
	if err != nil {
		return "", errDamaged
	}
	sum := crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli))
	if want := version.Payload.DataCrc32c; want != "" && want != strconv.FormatUint(uint64(sum), 10) {
		return "", errDamaged
	}
	return string(value), nil
}
