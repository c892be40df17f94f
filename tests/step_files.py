"""STEP files (AP214) of cylinders: assembly parts with placements."""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float, float]
Product = tuple[str, str]
"""Entity names of a product and its representation."""


class _Writer:
    """Entities of a STEP file, numbered in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, text: str) -> str:
        self.lines.append(f"#{len(self.lines) + 1}={text};")
        return f"#{len(self.lines)}"

    def point(self, x: float, y: float, z: float) -> str:
        return self.add(f"CARTESIAN_POINT('',({x!r},{y!r},{z!r}))")

    def direction(self, x: float, y: float, z: float) -> str:
        return self.add(f"DIRECTION('',({x!r},{y!r},{z!r}))")

    def place(self, origin: Point, z: Point = (0.0, 0.0, 1.0), x: Point = (1.0, 0.0, 0.0)) -> str:
        return self.add(f"AXIS2_PLACEMENT_3D('',{self.point(*origin)},{self.direction(*z)},{self.direction(*x)})")


class Assembly(_Writer):
    """Products: parts made of items, and assemblies of parts. unit: SI prefix, or `INCH`."""

    def __init__(self, unit: str = "MILLI") -> None:
        super().__init__()
        self.app = self.add("APPLICATION_CONTEXT('core data for automotive mechanical design processes')")
        standard = "'international standard','automotive_design',2000"
        self.add(f"APPLICATION_PROTOCOL_DEFINITION({standard},{self.app})")
        self.context = self.units(unit)
        self.home = self.place((0.0, 0.0, 0.0))

    def units(self, unit: str) -> str:
        """A representation context in a unit."""
        if unit == "INCH":
            metre = self.add("(LENGTH_UNIT()NAMED_UNIT(*)SI_UNIT(.MILLI.,.METRE.))")
            measure = self.add(f"LENGTH_MEASURE_WITH_UNIT(LENGTH_MEASURE(25.4),{metre})")
            size = self.add("DIMENSIONAL_EXPONENTS(1.,0.,0.,0.,0.,0.,0.)")
            length = self.add(f"(CONVERSION_BASED_UNIT('INCH',{measure})LENGTH_UNIT()NAMED_UNIT({size}))")
        else:
            prefix = f".{unit}." if unit else "$"
            length = self.add(f"(LENGTH_UNIT()NAMED_UNIT(*)SI_UNIT({prefix},.METRE.))")
        angle = self.add("(NAMED_UNIT(*)PLANE_ANGLE_UNIT()SI_UNIT($,.RADIAN.))")
        solid_angle = self.add("(NAMED_UNIT(*)SI_UNIT($,.STERADIAN.)SOLID_ANGLE_UNIT())")
        least = "LENGTH_MEASURE(1.E-7)"
        least = self.add(f"UNCERTAINTY_MEASURE_WITH_UNIT({least},{length},'distance_accuracy_value','')")
        return self.add(
            f"(GEOMETRIC_REPRESENTATION_CONTEXT(3)GLOBAL_UNCERTAINTY_ASSIGNED_CONTEXT(({least}))"
            f"GLOBAL_UNIT_ASSIGNED_CONTEXT(({length},{angle},{solid_angle}))REPRESENTATION_CONTEXT('',''))"
        )

    def product(self, name: str, items: Sequence[str], kind: str = "SHAPE", context: str | None = None) -> Product:
        """A product with a representation of items."""
        product = _product(self, self.app, name)
        listed = ",".join([self.home, *items])
        shape = self.add(f"{kind}_REPRESENTATION('',({listed}),{context or self.context})")
        whole = self.add(f"PRODUCT_DEFINITION_SHAPE('',$,{product})")
        self.add(f"SHAPE_DEFINITION_REPRESENTATION({whole},{shape})")
        return product, shape

    def part(self, items: Sequence[str], name: str = "part", context: str | None = None) -> Product:
        """A product of solids."""
        return self.product(name, items, "ADVANCED_BREP_SHAPE", context)

    def assembly(self, parts: Sequence[tuple[Product, Point]], name: str = "assembly") -> Product:
        """A product of other products, at given positions."""
        marks = [self.place(place) for _, place in parts]
        whole, shape = self.product(name, marks)
        for number, (((part, part_shape), _), mark) in enumerate(zip(parts, marks, strict=True)):
            use = self.add(f"NEXT_ASSEMBLY_USAGE_OCCURRENCE('{number}','c{number}','',{whole},{part},$)")
            used = self.add(f"PRODUCT_DEFINITION_SHAPE('','',{use})")
            moved = self.add(f"ITEM_DEFINED_TRANSFORMATION('','',{self.home},{mark})")
            relation = self.add(
                f"(REPRESENTATION_RELATIONSHIP('','',{part_shape},{shape})"
                f"REPRESENTATION_RELATIONSHIP_WITH_TRANSFORMATION({moved})SHAPE_REPRESENTATION_RELATIONSHIP())"
            )
            self.add(f"CONTEXT_DEPENDENT_SHAPE_REPRESENTATION({relation},{used})")
        return whole, shape

    def solid(self, radius: float, height: float) -> str:
        """A cylinder on the plane z = 0."""
        return _solid(self, radius, height)

    def text(self) -> str:
        """The file's text."""
        head = (
            "ISO-10303-21;\nHEADER;\nFILE_DESCRIPTION((''),'2;1');\n"
            "FILE_NAME('','2026-01-01T00:00:00',(''),(''),'','','');\n"
            "FILE_SCHEMA(('AUTOMOTIVE_DESIGN { 1 0 10303 214 1 1 1 1 }'));\nENDSEC;\nDATA;\n"
        )
        return head + "\n".join(self.lines) + "\nENDSEC;\nEND-ISO-10303-21;\n"


def cylinder(radius: float, height: float, places: Sequence[Point], unit: str = "MILLI") -> str:
    """A file with a cylinder on the plane z = 0 at each of `places`, in SI units with a prefix, or `INCH`."""
    file = Assembly(unit)
    part = file.part([file.solid(radius, height)])
    file.assembly([(part, place) for place in places])
    return file.text()


def _product(w: _Writer, app: str, name: str) -> str:
    context = w.add(f"PRODUCT_CONTEXT('',{app},'mechanical')")
    product = w.add(f"PRODUCT('{name}','{name}','',({context}))")
    formation = w.add(f"PRODUCT_DEFINITION_FORMATION('','',{product})")
    stage = w.add(f"PRODUCT_DEFINITION_CONTEXT('part definition',{app},'design')")
    return w.add(f"PRODUCT_DEFINITION('design','',{formation},{stage})")


def _solid(w: _Writer, radius: float, height: float) -> str:
    """A cylinder with a seam, starting at z = 0."""
    low, high = ((radius, 0.0, z) for z in (0.0, height))
    ends = [w.add(f"VERTEX_POINT('',{w.point(*each)})") for each in (low, high)]
    circles = [w.add(f"CIRCLE('',{w.place((0.0, 0.0, z))},{radius!r})") for z in (0.0, height)]
    rims = [w.add(f"EDGE_CURVE('',{v},{v},{c},.T.)") for v, c in zip(ends, circles, strict=True)]
    line = w.add(f"LINE('',{w.point(*low)},{w.add(f'VECTOR({chr(39) * 2},{w.direction(0.0, 0.0, 1.0)},1.)')})")
    seam = w.add(f"EDGE_CURVE('',{ends[0]},{ends[1]},{line},.T.)")

    def face(edges: Sequence[tuple[str, str]], surface: str, same: str) -> str:
        sides = ",".join(w.add(f"ORIENTED_EDGE('',*,*,{edge},{way})") for edge, way in edges)
        bound = w.add(f"FACE_OUTER_BOUND('',{w.add(f'EDGE_LOOP({chr(39) * 2},({sides}))')},.T.)")
        return w.add(f"ADVANCED_FACE('',({bound}),{surface},{same})")

    mantle = w.add(f"CYLINDRICAL_SURFACE('',{w.place((0.0, 0.0, 0.0))},{radius!r})")
    planes = [w.add(f"PLANE('',{w.place((0.0, 0.0, z))})") for z in (0.0, height)]
    faces = [
        face([(rims[0], ".T."), (seam, ".T."), (rims[1], ".F."), (seam, ".F.")], mantle, ".T."),
        face([(rims[0], ".F.")], planes[0], ".F."),
        face([(rims[1], ".T.")], planes[1], ".T."),
    ]
    shell = w.add(f"CLOSED_SHELL('',({','.join(faces)}))")
    return w.add(f"MANIFOLD_SOLID_BREP('',{shell})")
