/** Source repositories, captured from the repo_info of reports; nobody creates them by hand (semantics 8.1). */
import type { Db, Sources } from "./database.ts";

export type RepoRow = { id: number; public_id: string; external_id: string; provider: string; name: string; url: string; description: string };

/** What a report told about its repository; recorded only with id, name and url together. */
export type RepoFacts = {
  externalId: string;
  /** '' where the report named none. */
  provider: string;
  name: string;
  url: string;
  description: string;
  namespacePath: readonly string[] | null;
  additionalInfo: Readonly<Record<string, unknown>> | null;
};

const COLUMNS = "id, public_id, external_id, provider, name, url, description";

export function repoStore(db: Db, { now, newId }: Sources) {
  const byIdentity = db.prepare<[number, string, string], RepoRow>(
    `SELECT ${COLUMNS} FROM repos WHERE organization_id = ? AND external_id = ? AND provider = ?`,
  );
  const byName = db.prepare<[number, string], RepoRow>(`SELECT ${COLUMNS} FROM repos WHERE organization_id = ? AND name = ? ORDER BY id DESC`);
  const insert = db.prepare(
    `INSERT INTO repos (public_id, organization_id, external_id, provider, name, url, description, namespace_path_json, additional_info_json, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    `UPDATE repos SET name = ?, url = ?, description = ?, namespace_path_json = coalesce(?, namespace_path_json),
            additional_info_json = coalesce(?, additional_info_json), last_modified_at = ? WHERE id = ?`,
  );
  const json = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));

  return {
    /** Creates the repository or brings its changeable facts up to date. Identity: external id and provider. @returns its key. */
    capture(organizationId: number, facts: RepoFacts): number {
      const known = byIdentity.get(organizationId, facts.externalId, facts.provider);
      const path = json(facts.namespacePath);
      const info = json(facts.additionalInfo);
      if (!known) {
        const at = now();
        return Number(
          insert.run(newId(), organizationId, facts.externalId, facts.provider, facts.name, facts.url, facts.description, path, info, at, at)
            .lastInsertRowid,
        );
      }
      const description = facts.description || known.description;
      if (known.name !== facts.name || known.url !== facts.url || known.description !== description || path !== null || info !== null)
        update.run(facts.name, facts.url, description, path, info, now(), known.id);
      return known.id;
    },
    /** All repositories of that name, newest first: names may repeat across providers. */
    named: (organizationId: number, name: string): RepoRow[] => byName.all(organizationId, name),
  };
}
