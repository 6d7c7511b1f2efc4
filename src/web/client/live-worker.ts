/** The shared worker that holds the stream of all pages of a browser. It ends with the last of them. */
import { createLiveStream } from "./live-stream.ts";

const stream = createLiveStream();
addEventListener("connect", (event) => stream.join((event as MessageEvent).ports[0] as MessagePort));
