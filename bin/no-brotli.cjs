// Stands for brotli/decompress.js in bundles; see bundle.ts.
module.exports = () => {
  throw new Error("this build of Assay reads no fonts in WOFF 2");
};
