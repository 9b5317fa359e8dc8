package restsecret

import (
	"context"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"regexp"
	"strconv"
	"strings"
)

// GoogleAPI is where Google Secret Manager is.
const GoogleAPI = "https://secretmanager.googleapis.com"

var googleName = regexp.MustCompile(
	`^projects/[a-z0-9:.-]{1,63}/secrets/[A-Za-z0-9_-]{1,255}(/versions/[A-Za-z0-9_-]{1,63})?$`)

var errDamaged = errors.New("what Google Secret Manager sent is not what its checksum says")

// Google is Google Secret Manager. Of a secret without a version the latest is taken.
type Google struct {
	Client   Client
	Endpoint string // GoogleAPI, or an emulator
}

// Fetch implements secret.Source (Secret Manager API v1, projects.secrets.versions.access).
func (g Google) Fetch(ctx context.Context, name string) (string, error) {
	if !googleName.MatchString(name) {
		return "", malformed("gcpsm:projects/PROJECT/secrets/NAME, with /versions/VERSION if need be")
	}
	if !strings.Contains(name, "/versions/") {
		name += "/versions/latest"
	}
	var version struct {
		Payload struct {
			Data       string `json:"data"`
			DataCrc32c string `json:"dataCrc32c"` // a number as a string, as JSON has no 64-bit integers
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
