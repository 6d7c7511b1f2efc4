// Replaces brotli/decompress.js in bundles; see bundle.ts.
module.exports = () => {
  throw new Error("this build of Assay does not read WOFF 2 fonts");
};
