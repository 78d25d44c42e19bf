def print_tables(found, console):
    for name, r in found["configurations"].items():
        for it in ("best", "last"):
            s=[x[it] for x in r["seeds"]]
            console.print(name, it, *[f"{x['pose_error']:.2e}" for x in s], *[f"{x['flanking']:.3f}" for x in s], *[f"{x['equivariance_without_flips']:.1e}" for x in s], [x["flips"] for x in s], highlight=False, soft_wrap=True)
