/** The part of @koa/multer that multipart.ts uses; the package ships no types. */
declare module "@koa/multer" {
  import type { IncomingHttpHeaders, ServerResponse } from "node:http";
  import type { Readable, Writable } from "node:stream";

  /** A request, as far as the parser needs one. */
  export type FormStream = Readable & { headers: IncomingHttpHeaders };
  export type PartFile = { fieldname: string; originalname: string; mimetype: string; stream: Readable };
  export type StorageEngine = {
    _handleFile(request: FormStream, file: PartFile, done: (error: unknown, info?: object) => void): void;
    _removeFile(request: FormStream, file: PartFile & object, done: (error: unknown) => void): void;
  };
  type Options = {
    storage: StorageEngine;
    limits: Record<string, number>;
    defParamCharset: string;
    /** Feeds the body to the parser. */
    streamHandler(request: FormStream, parser: Writable): void;
  };
  export default function multer(options: Options): {
    fields(
      parts: readonly { name: string; maxCount: number }[],
    ): (ctx: { req: FormStream; res: ServerResponse }, next: () => Promise<void>) => Promise<void>;
    any(): (ctx: { req: FormStream; res: ServerResponse }, next: () => Promise<void>) => Promise<void>;
  };
}
