/** The part of @koa/multer that multipart.ts uses; the package ships no types. */
declare module "@koa/multer" {
  import type { IncomingMessage } from "node:http";
  import type { Readable, Writable } from "node:stream";
  import type Koa from "koa";

  export type PartFile = { fieldname: string; originalname: string; mimetype: string; stream: Readable };
  export type StorageEngine = {
    _handleFile(request: IncomingMessage, file: PartFile, done: (error: unknown, info?: object) => void): void;
    _removeFile(request: IncomingMessage, file: PartFile & object, done: (error: unknown) => void): void;
  };
  type Options = {
    storage: StorageEngine;
    limits: Record<string, number>;
    defParamCharset: string;
    /** Feeds the body to the parser. */
    streamHandler(request: IncomingMessage, parser: Writable): void;
  };
  export default function multer(options: Options): {
    fields(parts: readonly { name: string; maxCount: number }[]): Koa.Middleware;
  };
}
