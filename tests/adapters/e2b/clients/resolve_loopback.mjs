// Resolves every host name to this machine, as a wildcard name for a hub would.
import dns from "node:dns";

dns.lookup = (_name, options, callback) => {
    const done = callback ?? options;
    if (options.all) done(null, [{ address: "127.0.0.1", family: 4 }]);
    else done(null, "127.0.0.1", 4);
};
