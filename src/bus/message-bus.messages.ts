/** What users read of this room. */
export const busMessages = {
  nodeTaken: (node: string) =>
    `A message bus with the node id "${node}" is on this hub already. Give each bus an id of its own, or leave it out to get a random one.`,
};
