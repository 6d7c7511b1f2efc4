// Serves a collection like the attestations of Assay with PocketBase, as durably as Assay does: every commit is
// synchronized with the disk. `pocketbase DIRECTORY` creates its data there and prints a token and its address.
//
// Requests need the token of a user, which PocketBase verifies against the user's record, as Assay does with a key.
// Everything else is as PocketBase delivers it.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/pocketbase/dbx"
	"github.com/pocketbase/pocketbase/apis"
	"github.com/pocketbase/pocketbase/core"
	_ "github.com/pocketbase/pocketbase/migrations"
	"github.com/pocketbase/pocketbase/tools/types"
	_ "modernc.org/sqlite"
)

const (
	dataFile = "data.db"
	maxFile  = 1 << 20
)

// The pragmas of PocketBase, but synchronous. Its log of requests is in a database of its own, which stays as it is.
func connect(path string) (*dbx.DB, error) {
	synchronous := "NORMAL"
	if filepath.Base(path) == dataFile {
		synchronous = "FULL"
	}
	pragmas := []string{
		"busy_timeout(10000)",
		"journal_mode(WAL)",
		"journal_size_limit(200000000)",
		"synchronous(" + synchronous + ")",
		"foreign_keys(ON)",
		"temp_store(MEMORY)",
		"cache_size(-32000)",
	}
	return dbx.Open("sqlite", path+"?_pragma="+strings.Join(pragmas, "&_pragma="))
}

// Checks what the connections really use.
func verifyDurability(app core.App) error {
	for name, db := range map[string]dbx.Builder{"writing": app.NonconcurrentDB(), "reading": app.ConcurrentDB()} {
		var journal string
		var synchronous int
		if err := db.NewQuery("PRAGMA journal_mode").Row(&journal); err != nil {
			return err
		}
		if err := db.NewQuery("PRAGMA synchronous").Row(&synchronous); err != nil {
			return err
		}
		const full = 2
		if journal != "wal" || synchronous != full {
			return fmt.Errorf("the %s connection has journal_mode=%s and synchronous=%d", name, journal, synchronous)
		}
	}
	return nil
}

func createCollection(app core.App) error {
	reports := core.NewBaseCollection("reports")
	reports.Fields.Add(
		&core.TextField{Name: "name", Required: true},
		&core.TextField{Name: "detail"},
		&core.FileField{Name: "evidence", MaxSelect: 1, MaxSize: maxFile},
	)
	reports.AddIndex("reports_by_name", true, "name", "")
	signedIn := types.Pointer(`@request.auth.id != ""`)
	reports.ListRule, reports.ViewRule, reports.CreateRule = signedIn, signedIn, signedIn
	return app.Save(reports)
}

func createToken(app core.App) (string, error) {
	users, err := app.FindCollectionByNameOrId("users")
	if err != nil {
		return "", err
	}
	user := core.NewRecord(users)
	user.SetEmail("operator@example.com")
	user.SetPassword("a-password-of-the-bench")
	if err := app.Save(user); err != nil {
		return "", err
	}
	return user.NewAuthToken()
}

func run(directory string) error {
	app := core.NewBaseApp(core.BaseAppConfig{DataDir: directory, DBConnect: connect})
	if err := app.Bootstrap(); err != nil {
		return err
	}
	if err := app.RunAllMigrations(); err != nil {
		return err
	}
	if err := verifyDurability(app); err != nil {
		return err
	}
	if err := createCollection(app); err != nil {
		return err
	}
	token, err := createToken(app)
	if err != nil {
		return err
	}
	app.OnServe().BindFunc(func(event *core.ServeEvent) error {
		event.InstallerFunc = nil
		if event.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		fmt.Printf("token %s\n", token)
		err := event.Next()
		fmt.Printf("listening on http://%s\n", event.Listener.Addr())
		return err
	})
	return apis.Serve(app, apis.ServeConfig{})
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: pocketbase DIRECTORY")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
