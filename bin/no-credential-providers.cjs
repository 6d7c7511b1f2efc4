// Replaces @aws-sdk/credential-provider-node in bundles; see bundle.ts.
exports.defaultProvider = () => () => {
  throw new Error("this build of Assay takes credentials only from its options and its environment");
};
