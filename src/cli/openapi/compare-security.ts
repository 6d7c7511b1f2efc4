/** Compares how requests of an operation may authenticate. */
import { isObject } from "../../domain/stored-json.ts";
import { resolveReference } from "./document.ts";
import type { ApiDocument, JsonObject } from "./document.ts";

type Secured = { document: ApiDocument; operation: JsonObject };

/** Each way that theirs accepts is accepted by ours; a way without authentication is one of them. */
export function compareSecurity(our: Secured, their: Secured): { place: string; problem: string }[] {
  const [mine, others] = [listWays(our), listWays(their)];
  return others
    .filter((way) => !mine.includes(way))
    .map((way) => ({
      place: "security",
      problem: way === "" ? "requires authentication (there: none)" : `does not accept ${way}`,
    }));
}

/** The ways to authenticate, each as the schemes that it takes; "" for none. */
function listWays({ document, operation }: Secured): string[] {
  const ways = operation["security"] ?? document.root["security"];
  if (!Array.isArray(ways) || ways.length === 0) return [""];
  const { components } = document.root;
  const schemes = isObject(components) && isObject(components["securitySchemes"]) ? components["securitySchemes"] : {};
  const describe = (name: string): string => {
    const scheme = schemes[name];
    return isObject(scheme) ? describeScheme(resolveReference(document, scheme)) : name;
  };
  return [...new Set(ways.filter(isObject).map((way) => Object.keys(way).map(describe).sort().join(" with ")))];
}

/** Names of schemes differ from document to document. */
function describeScheme({ type, scheme, in: location, name }: JsonObject): string {
  if (type === "http") return `HTTP ${String(scheme).toLowerCase()}`;
  return type === "apiKey" ? `the ${location} ${name}` : String(type);
}
